package main

import (
	"fmt"
	"io"
)

// relayColumn is one figure of the table of hand-overs.
type relayColumn struct {
	title string
	value lapsFigure
	show  func(float64) string
}

var relayColumns = []relayColumn{
	{"p50", (*laps).handoverP50, micros},
	{"p99", (*laps).handoverP99, micros},
	{"hand-overs/s", (*laps).handoversPerSecond, whole},
	{"to itself", (*laps).keptShare, percent},
	{"to others: p50", (*laps).passedP50, micros},
	{"p99", (*laps).passedP99, micros},
	{"least share", (*laps).leastShare, hundredths},
	{"most share", (*laps).mostShare, hundredths},
}

func percent(v float64) string    { return fmt.Sprintf("%.0f %%", 100*v) }
func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

// writeContention shows what happened where many want one lock.
func writeContention(w io.Writer, c *contention) {
	writeHandovers(w, c.handovers)
	fmt.Fprintf(w, "\nCommands that this library sends to a server, the busiest one\n")
	t := newTable(w)
	fmt.Fprintln(t, "waiters\tclients\thand-overs\tcommands per hand-over")
	for i := range c.crowds {
		crowd := &c.crowds[i]
		fmt.Fprintf(t, "%d\t%d\t%d\t%.1f\n", crowd.waiters, crowd.clients, crowd.handovers, crowd.perHandover())
	}
	_ = t.Flush()
	fmt.Fprintf(w, "%d waiters, %d clients, the lock held for %v: %.1f commands per second\n",
		c.idle.waiters, c.idle.clients, c.idle.elapsed, c.idle.perSecond())
}

// writeHandovers shows a line for each peer: ratios first, then the figures, each
// the median over the rounds.
func writeHandovers(w io.Writer, rounds handoverRounds) {
	single := rounds.spreadOf(func(r handoverRound) float64 { return float64(r.uncontended) })
	fmt.Fprintf(w, "\nHand-over among %d clients, each holding for %v: from the call of Unlock to the next holder's return from Lock\n",
		relayClients, holdTime)
	fmt.Fprintf(w, "(ratios to %s's uncontended Lock, p50 %s)\n", redlockUnguarded.name, micros(single.median))
	t := newTable(w)
	for _, p := range relayPeers {
		fmt.Fprintf(t, "%s\t%s\n", p.name, p.about)
	}
	_ = t.Flush()
	fmt.Fprint(t, "peer\tp50, ratio\tp99, ratio")
	for _, c := range relayColumns {
		fmt.Fprintf(t, "\t%s", c.title)
	}
	fmt.Fprintln(t)
	for _, p := range relayPeers {
		fmt.Fprintf(t, "%s\t%.2fx\t%.2fx", p.name,
			rounds.toUncontended(p.name, (*laps).handoverP50).median, rounds.toUncontended(p.name, (*laps).handoverP99).median)
		for _, c := range relayColumns {
			fmt.Fprintf(t, "\t%s", c.show(rounds.spread(p.name, c.value).median))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}
