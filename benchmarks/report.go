package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"
)

// column is one figure of the table.
type column struct {
	title string
	value figure
	show  func(float64) string
}

var columns = []column{
	{"pairs/s", (*sample).pairsPerSecond, whole},
	{"Lock p50", lockP50, micros},
	{"Lock p99", func(s *sample) float64 { return s.lockQ(0.99) }, micros},
	{"Unlock p50", func(s *sample) float64 { return s.unlockQ(0.50) }, micros},
	{"Unlock p99", func(s *sample) float64 { return s.unlockQ(0.99) }, micros},
	{"CPU/pair", (*sample).cpuPerPair, micros},
	{"servers'", (*sample).serverCPUPerPair, micros},
	{"allocs/pair", (*sample).allocsPerPair, whole},
	{"B/pair", (*sample).bytesPerPair, whole},
}

func lockP50(s *sample) float64 { return s.lockQ(0.50) }

func whole(v float64) string  { return fmt.Sprintf("%.0f", v) }
func micros(v float64) string { return fmt.Sprintf("%.1f µs", v/1e3) }

// setting is what the report says about where it was made.
type setting struct {
	redis string // version
	plan  *plan
}

func writeSetting(w io.Writer, s setting) {
	fmt.Fprintf(w, "%s, %s/%s, %d processors, %s; %d local redis-server %s without persistence\n",
		time.Now().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version(), len(s.plan.servers.addrs), s.redis)
	fmt.Fprintf(w, "lock+unlock on distinct names, %d rounds of %v for each peer in turn, after %v of warm-up each\n\n",
		s.plan.rounds, s.plan.length, s.plan.warmUp)
	t := newTable(w)
	for _, c := range s.plan.peers {
		fmt.Fprintf(t, "%s\t%s\n", c.name, c.about)
	}
	_ = t.Flush()
}

// writeChecks comes before the figures: the ratios are what holds on another
// machine.
func writeChecks(w io.Writer, checks []check) {
	fmt.Fprintf(w, "\nTargets (the median over the rounds, least to most; ratios are taken round by round)\n")
	t := newTable(w)
	for _, c := range checks {
		fmt.Fprintf(t, "%s\t%s\ttarget %s\t%s\n", c.what, c.figure, c.target, c.verdict())
	}
	_ = t.Flush()
}

// writeTable shows a block for each number of goroutines: the ratios, then the
// figures, each the median over the rounds.
func writeTable(w io.Writer, pl *plan, r results) {
	for _, g := range pl.goroutines {
		fmt.Fprintf(w, "\nGoroutines: %d (ratios to redsync)\n", g)
		t := newTable(w)
		fmt.Fprint(t, "peer\tpairs/s, ratio\tLock p50, ratio")
		for _, c := range columns {
			fmt.Fprintf(t, "\t%s", c.title)
		}
		fmt.Fprintln(t, "\tfailures")
		for _, c := range pl.peers {
			writeRow(t, r, spot{c.name, g})
		}
		_ = t.Flush()
	}
}

func writeRow(w io.Writer, r results, at spot) {
	base := spot{redsyncDefault.name, at.goroutines}
	fmt.Fprintf(w, "%s\t%s\t%s", at.peer,
		against(r, at, base, (*sample).pairsPerSecond), against(r, at, base, lockP50))
	for _, c := range columns {
		fmt.Fprintf(w, "\t%s", c.show(r.median(at, c.value)))
	}
	failures, _ := r.failures(at)
	fmt.Fprintf(w, "\t%d\n", failures)
}

// against is a ratio for the table; a dash where the run lacks the other peer.
func against(r results, at, base spot, f figure) string {
	if r[base] == nil {
		return "-"
	}
	return fmt.Sprintf("%.2fx", r.ratio(at, base, f).median)
}

func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
}
