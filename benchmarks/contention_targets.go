package main

import "fmt"

// The bounds that this library promises to keep where many want one lock.
const (
	maxHandoverP50 = 3.5  // of an uncontended Lock's p50
	maxHandoverP99 = 10.0 // of the same
	maxOfRueidis   = 1.0  // of the p50 of rueidislock, which waits on one server
	maxCrowdGrowth = 1.5  // commands per hand-over with manyWaiters, of those with fewWaiters
	maxIdlePerSec  = 10.0 // commands at a server, while manyWaiters wait
	minShareOfMean = 0.8  // of the acquisitions, for each of equal clients
	maxShareOfMean = 1.25
)

// contentionChecks are the targets of the whole workload.
func contentionChecks(c *contention) []check {
	checks := handoverChecks(c.handovers)
	checks = append(checks, fairCheck(c.fair, minShareOfMean, maxShareOfMean))
	checks = append(checks, crowdChecks(c.crowds)...)
	checks = append(checks, idleCheck(c.idle))
	return append(checks, soundCheck(c.ours()...))
}

func handoverChecks(rounds handoverRounds) []check {
	ours := redlockUnguarded.name
	return []check{
		atMost(fmt.Sprintf("hand-over p50, %d clients: %s / its uncontended Lock's p50", relayClients, ours),
			rounds.toUncontended(ours, (*laps).handoverP50), maxHandoverP50),
		atMost(fmt.Sprintf("hand-over p99, %d clients: %s / the same", relayClients, ours),
			rounds.toUncontended(ours, (*laps).handoverP99), maxHandoverP99),
		atMost(fmt.Sprintf("hand-over p50, %d clients: %s on %d servers / %s on one", relayClients, ours, nodes, rueidislockOne.name),
			rounds.ratio(ours, rueidislockOne.name, (*laps).handoverP50), maxOfRueidis),
	}
}

func atMost(what string, ratio spread, bound float64) check {
	return check{
		what:   what,
		figure: fmt.Sprintf("%.2fx (%.2f to %.2f)", ratio.median, ratio.least, ratio.most),
		target: fmt.Sprintf("<= %.2fx", bound),
		met:    ratio.median <= bound,
	}
}

func fairCheck(l *laps, least, most float64) check {
	return check{
		what:   fmt.Sprintf("acquisitions of each of %d equal clients / their mean", len(l.won)),
		figure: fmt.Sprintf("%.2f to %.2f", l.leastShare(), l.mostShare()),
		target: fmt.Sprintf("%.2f to %.2f", least, most),
		met:    l.leastShare() >= least && l.mostShare() <= most,
	}
}

// crowdChecks compares the crowds, where the plan has both.
func crowdChecks(crowds []crowdCost) []check {
	var few, many *crowdCost
	for i := range crowds {
		switch crowds[i].waiters {
		case fewWaiters:
			few = &crowds[i]
		case manyWaiters:
			many = &crowds[i]
		}
	}
	if few == nil || many == nil {
		return nil
	}
	growth := many.perHandover() / few.perHandover()
	return []check{{
		what:   fmt.Sprintf("commands at a server per hand-over: %d waiters / %d", manyWaiters, fewWaiters),
		figure: fmt.Sprintf("%.2fx (%.1f / %.1f)", growth, many.perHandover(), few.perHandover()),
		target: fmt.Sprintf("<= %.2fx", maxCrowdGrowth),
		met:    growth <= maxCrowdGrowth,
	}}
}

func idleCheck(c *idleCost) check {
	return check{
		what:   fmt.Sprintf("commands at a server per second while %d wait", c.waiters),
		figure: fmt.Sprintf("%.1f", c.perSecond()),
		target: fmt.Sprintf("<= %.0f", maxIdlePerSec),
		met:    c.perSecond() <= maxIdlePerSec,
	}
}

// soundCheck: no two hold the lock at once, and no Lock or Unlock fails where
// nothing is wrong.
func soundCheck(all ...*laps) check {
	var overlaps, failures int
	var one error
	for _, l := range all {
		overlaps += l.overlaps
		failures += l.failures
		if l.failure != nil {
			one = l.failure
		}
	}
	figure := fmt.Sprintf("%d, %d", overlaps, failures)
	if one != nil {
		figure += fmt.Sprintf(", such as: %v", one)
	}
	return check{
		what:   "two holders at once, and failures, while the lock goes round",
		figure: figure,
		target: "none",
		met:    overlaps+failures == 0,
	}
}
