package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/printable"
)

// judgeTwins reports servers that were given more than once.
func (x *examination) judgeTwins() {
	first := make(map[string]string)
	for _, f := range x.Nodes {
		if f.RunID == "" {
			continue
		}
		if other, twice := first[f.RunID]; twice {
			x.add(danger, "duplicate", f.Node, "it is the same server as "+other,
				"one server has one vote: this one does not count, and the majority is still counted "+
					"over the whole list",
				"give every server once; look for proxies, aliases and forwarded ports")
			continue
		}
		first[f.RunID] = f.Node
	}
}

// judgeClocks compares the clocks. The time that they show matters for tokens alone; their
// rate matters for every lock.
func (x *examination) judgeClocks() {
	// This machine is one of the clocks, and its offset to itself is 0.
	offsets := []float64{0}
	for _, f := range x.Nodes {
		if f.Clock.Known {
			offsets = append(offsets, f.Clock.Offset)
		}
	}
	middle := median(offsets)
	for _, f := range x.Nodes {
		if !f.Clock.Known {
			continue
		}
		if rate := math.Abs(f.Clock.Drift) - f.Clock.Uncertainty; rate > x.limits.driftPPM {
			x.add(danger, "clock-rate", f.Node,
				fmt.Sprintf("while doctor looked, its clock gained %.0f ppm on this machine's (± %.0f): it was "+
					"stepped, or runs at another rate", f.Clock.Drift, f.Clock.Uncertainty),
				"keys may expire while their holders still trust them: two may hold one lock",
				"let the clock be slewed, never stepped (chrony without makestep, ntpd -x), or raise the drift "+
					"allowance of all clients")
		}
		if away := millisec(f.Clock.Offset - middle); away.Abs() > x.limits.offset {
			x.add(warning, "clock-offset", f.Node,
				fmt.Sprintf("its clock is %s %s that of the others",
					printable.Duration(away.Abs()), aheadOrBehind(away)),
				"locks do not depend on the time that it shows. But a correction in one step forward ends keys "+
					"early, so that two may hold one lock; and where a majority loses its memory, tokens begin "+
					"from the latest clock: one that is far ahead now makes them go back later",
				"run chrony or ntpd at the server, and let it slew the clock, not step it")
		}
	}
	if away := millisec(-middle); away.Abs() > x.limits.offset {
		x.add(note, "own-clock", "",
			fmt.Sprintf("this machine's clock is %s %s the nodes'",
				printable.Duration(away.Abs()), aheadOrBehind(away)),
			"none for locks and tokens; times in logs do not match", "run chrony or ntpd here")
	}
}

func millisec(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

func aheadOrBehind(d time.Duration) string {
	if d > 0 {
		return "ahead of"
	}
	return "behind"
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// judgePersistence reports nodes without persistence. With admission, exclusion needs no
// disk. A disk keeps the tokens independent of clocks when a majority restarts at once.
func (x *examination) judgePersistence() {
	var without []string
	for _, f := range x.Nodes {
		if f.Answers && f.RDB == "off" && f.AOF == "off" {
			without = append(without, f.Node)
		}
	}
	if len(without) == 0 {
		return
	}
	what := "persistence is off (neither RDB nor AOF): " + strings.Join(without, ", ")
	if left := len(x.Nodes) - len(without); left >= x.Quorum {
		x.add(note, "persistence", "", what,
			"none as long as a majority keeps its memory: a node that restarts waits for the guard, and takes its "+
				"counters from the others",
			"nothing; appendonly yes if that majority may restart, too")
		return
	}
	x.add(warning, "persistence", "", what,
		"exclusion does not need it. But if a majority restarts at once (one power supply, one upgrade) all "+
			"counters are gone, and fencing tokens begin anew from the nodes' clocks: they stay in order "+
			"only if no clock had been far ahead",
		"appendonly yes (appendfsync everysec will do) at a majority, where tokens protect something")
}

// judgeList reports weaknesses of the list of nodes, and a missing quorum.
func (x *examination) judgeList() {
	n := len(x.Nodes)
	switch {
	case n < 3:
		x.add(warning, "few", "", fmt.Sprintf("%d nodes are given", n),
			"not one of them may fail: the majority is all of them",
			"use three, which tolerate one failure, or five, which tolerate two")
	case n%2 == 0:
		x.add(note, "even", "", fmt.Sprintf("%d nodes are given, an even number", n),
			fmt.Sprintf("they tolerate no more failures (%d) than %d would", n-x.Quorum, n-1),
			"add one, or take one away")
	}
	hosts := make(map[string]int)
	for _, f := range x.Nodes {
		hosts[f.host]++
	}
	for host, count := range hosts {
		if count > 1 && count > n-x.Quorum {
			x.add(note, "one-host", "", fmt.Sprintf("%d of %d nodes are at %s", count, n, host),
				"if that machine fails, no locks can be acquired",
				"let them fail apart: other machines, racks, datacenters")
		}
	}
	fit, waiting := 0, 0
	for _, f := range x.Nodes {
		switch {
		case !x.fit(f):
		case x.limits.guard > 0 && (f.Admitted.State == "new" || f.Admitted.State == "waits"):
			waiting++
		default:
			fit++
		}
	}
	switch {
	case fit+waiting < x.Quorum:
		x.add(danger, "no-quorum", "",
			fmt.Sprintf("only %d of %d nodes can vote, and %d must", fit+waiting, n, x.Quorum),
			"no lock is granted, and leases that are held expire", "see to the nodes above")
	case fit < x.Quorum:
		how, what := warning, ""
		if fit == 0 {
			how, what = note, "a new cluster, or one whose servers have all restarted: "
		}
		// This finding says it of all of them.
		x.Findings = slices.DeleteFunc(x.Findings,
			func(f finding) bool { return f.Code == "young" || f.Code == "not-admitted" })
		remedy := "nothing: it passes by itself once a client is there"
		if slices.ContainsFunc(x.Findings, func(f finding) bool { return f.Code == "damaged" }) {
			remedy = "see to the damaged records; then it passes by itself once a client is there"
		}
		x.add(how, "no-quorum-yet", "",
			what+fmt.Sprintf("%d of %d nodes vote, %d more wait until they may, and %d must", fit, n, waiting,
				x.Quorum),
			x.votesIn(), remedy)
	}
}

// votesIn returns when so many nodes vote as must, where they do not yet.
func (x *examination) votesIn() string {
	var lefts, begun []time.Duration // begun: without those whose wait no client has begun
	for _, f := range x.Nodes {
		if !x.fit(f) {
			continue
		}
		left := time.Duration(f.Admitted.Left * float64(time.Second))
		if f.Admitted.State == "new" {
			left = x.limits.guard
		} else {
			begun = append(begun, left)
		}
		lefts = append(lefts, left)
	}
	wait := node.VotesIn(lefts, x.Quorum)
	switch {
	case len(begun) < x.Quorum:
		return fmt.Sprintf("the next lock waits for %v from its client's first connection on, and for %v if a client "+
			"still runs that saw the nodes vote",
			wait, max(wait, admission.MajorityLossGuard))
	case wait == 0:
		return "none: the waits are over, and the next client lets the nodes vote"
	}
	return fmt.Sprintf("locks wait for another %.0f s", math.Ceil(wait.Seconds()))
}

// fit reports whether a node can vote, now or after its quarantine.
func (x *examination) fit(f *nodeFacts) bool {
	if f.err != nil || f.refusal != nil {
		return false
	}
	for _, known := range x.Findings {
		if known.Node != f.Node {
			continue
		}
		switch known.Code {
		case "replica", "role", "duplicate", "other-list", "cluster-mode", "no-rights", "damaged", "foreign-keys":
			return false
		case "slow", "unknown-command":
			if known.Severity == danger {
				return false
			}
		}
	}
	return true
}
