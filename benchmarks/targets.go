package main

import (
	"fmt"
	"slices"
)

// The bounds that this library promises to keep, beside its peers in one run.
const (
	minSpeedup      = 7.0  // of redsync's pairs/s, at manyGoroutines, without tokens as redsync
	minFenced       = 5.0  // the same with tokens
	maxOfRedsync    = 0.85 // of redsync's p50 of Lock, at one goroutine
	maxOfFloor      = 1.25 // of the floor's
	maxHeapPerLease = 1024 // bytes
	maxNewGoroutine = 8    // whatever the number of leases
	manyGoroutines  = 128

	maxGoroutines       = 25   // while 10 000 leases renew
	maxWritesPerRenewal = 0.25 // system calls, for one renewal at one node
)

// check is one target and what became of it.
type check struct {
	what   string
	figure string
	target string
	met    bool
}

// verdict is said plainly, for people who look for one word.
func (c check) verdict() string {
	if c.met {
		return "met"
	}
	return "MISSED"
}

func allMet(checks []check) bool {
	for _, c := range checks {
		if !c.met {
			return false
		}
	}
	return true
}

// comparable tells whether the plan measures all that speedChecks compares.
func (pl *plan) comparable() bool {
	for _, c := range []contender{redlockDefault, redlockUnfenced, redsyncDefault, floorLoop} {
		if !slices.ContainsFunc(pl.peers, func(p contender) bool { return p.name == c.name }) {
			return false
		}
	}
	return slices.Contains(pl.goroutines, 1) && slices.Contains(pl.goroutines, manyGoroutines)
}

// speedChecks compares this library with its peers, where the run has both.
func speedChecks(r results) []check {
	var all []check
	compare := func(what string, we contender, peer string, goroutines int, f figure, relation string, bound float64) {
		ours, theirs := spot{we.name, goroutines}, spot{peer, goroutines}
		if r[ours] == nil || r[theirs] == nil {
			return
		}
		x := r.ratio(ours, theirs, f)
		all = append(all, check{
			what:   fmt.Sprintf("%s, %d goroutines: %s / %s", what, goroutines, we.name, peer),
			figure: fmt.Sprintf("%.2fx (%.2f to %.2f)", x.median, x.least, x.most),
			target: fmt.Sprintf("%s %.2fx", relation, bound),
			met:    relation == ">=" && x.median >= bound || relation == "<=" && x.median <= bound,
		})
	}
	compare("pairs/s", redlockUnfenced, redsyncDefault.name, manyGoroutines, (*sample).pairsPerSecond, ">=", minSpeedup)
	compare("pairs/s", redlockDefault, redsyncDefault.name, manyGoroutines, (*sample).pairsPerSecond, ">=", minFenced)
	compare("p50 of Lock", redlockDefault, redsyncDefault.name, 1, lockP50, "<=", maxOfRedsync)
	compare("p50 of Lock", redlockUnfenced, floorLoop.name, 1, lockP50, "<=", maxOfFloor)
	return all
}

// failureChecks: no lock of this library may fail where nothing is wrong.
func failureChecks(r results) []check {
	var all []check
	for at := range r {
		if at.peer != redlockDefault.name && at.peer != redlockUnfenced.name {
			continue
		}
		if n, one := r.failures(at); n > 0 {
			all = append(all, check{
				what:   fmt.Sprintf("failures, %d goroutines: %s", at.goroutines, at.peer),
				figure: fmt.Sprintf("%d, such as: %v", n, one),
				target: "none",
			})
		}
	}
	return all
}

func leaseChecks(c *leaseCost) []check {
	more := c.goroutinesAfter - c.goroutinesBefore
	return []check{{
		what:   fmt.Sprintf("goroutines more while %d leases are held", c.leases),
		figure: fmt.Sprint(more),
		target: fmt.Sprintf("<= %d", maxNewGoroutine),
		met:    more <= maxNewGoroutine,
	}, {
		what:   fmt.Sprintf("heap for each of %d leases", c.leases),
		figure: fmt.Sprintf("%.0f B", c.heapPerLease),
		target: fmt.Sprintf("<= %d B", maxHeapPerLease),
		met:    c.heapPerLease <= maxHeapPerLease,
	}}
}
