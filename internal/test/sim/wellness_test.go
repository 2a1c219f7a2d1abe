package sim

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// simWellness is which nodes were well for which clients, and when, by the true time.
// It errs on the side of ailments: a promise that holds only while a majority is well
// must not be checked where that is in doubt.
type simWellness struct {
	now func() time.Duration

	mu     sync.Mutex // protects what follows
	open   map[simAilment]time.Duration
	spells []simSpell
	shaken []time.Duration
}

// simAilment is why a node is not well for a client, or for everybody.
type simAilment struct {
	node, client int // a client of -1: for all
	what         string
}

// simSpell is a time in which a node is not well.
type simSpell struct {
	simAilment
	from, to time.Duration
}

const everybody = -1

// notAdmitted is what ails a node that lost its memory.
const notAdmitted = "not admitted"

const (
	// simReconnects is how long after an ailment clients may take to be connected
	// again: pauses between attempts are half a second at most.
	simReconnects = 1500 * time.Millisecond

	// simNotices is how long a client may take to find that nothing comes on a
	// connection any more, and to be connected again.
	simNotices = 2500*time.Millisecond + simReconnects
)

// set records that an ailment begins or goes on (ails), or that it is over.
func (w *simWellness) set(node, client int, what string, ails bool) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	a := simAilment{node, client, what}
	from, ill := w.open[a]
	switch {
	case ails && !ill:
		if w.open == nil {
			w.open = make(map[simAilment]time.Duration)
		}
		w.open[a] = now
	case !ails && ill:
		delete(w.open, a)
		w.spells = append(w.spells, simSpell{a, from, now + simNotices})
	}
}

// suffers records an ailment of nodes that begins now and lasts for last.
func (w *simWellness) suffers(nodes quorum.NodeSet, client int, last time.Duration) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range 64 { // as many as a NodeSet has room for
		if nodes.Has(n) {
			w.spells = append(w.spells, simSpell{simAilment{n, client, ""}, now, now + last})
		}
	}
}

// shakes records an instant from which waiting is counted anew: keys may be left of a
// client that died, or of a lease that ForceUnlock took.
func (w *simWellness) shakes() {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shaken = append(w.shaken, now)
}

// simSpans are times that do not meet, in their order.
type simSpans []simSpan

type simSpan struct{ from, to time.Duration }

// merged sorts times, and joins those that meet.
func merged(times simSpans) (all simSpans) {
	slices.SortFunc(times, func(a, b simSpan) int { return cmp.Compare(a.from, b.from) })
	for _, t := range times {
		if last := len(all) - 1; last >= 0 && t.from <= all[last].to {
			all[last].to = max(all[last].to, t.to)
			continue
		}
		all = append(all, t)
	}
	return all
}

// longest is the longest time between from and to that none of the times touches.
func (times simSpans) longest(from, to time.Duration) (longest simSpan) {
	at := from
	for _, t := range append(slices.Clip(times), simSpan{to, to}) {
		if t.to < from {
			continue
		}
		if free := min(t.from, to) - at; free > longest.to-longest.from {
			longest = simSpan{at, at + free}
		}
		at = max(at, t.to)
	}
	return longest
}

// touch reports whether one of the times lies between from and to, in part at least.
func (times simSpans) touch(from, to time.Duration) bool {
	return slices.ContainsFunc(times, func(t simSpan) bool { return t.from <= to && t.to >= from })
}

// ill returns when a node was not well for a client.
func (w *simWellness) ill(node, client int) simSpans { return w.illBut("no ailment", node, client) }

// illBut returns when a node was not well for a client, by any other ailment than this one.
func (w *simWellness) illBut(what string, node, client int) simSpans {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all simSpans
	concerns := func(a simAilment) bool {
		return a.node == node && (a.client == client || a.client == everybody) && a.what != what
	}
	for _, s := range w.spells {
		if concerns(s.simAilment) {
			all = append(all, simSpan{s.from, s.to})
		}
	}
	for a, from := range w.open {
		if concerns(a) {
			all = append(all, simSpan{from, math.MaxInt64})
		}
	}
	return merged(all)
}

// starved returns when fewer than a quorum of the nodes were well for a client.
func (w *simWellness) starved(client, nodes, quorum int) simSpans {
	var ills []simSpans
	for n := range nodes {
		ills = append(ills, w.ill(n, client))
	}
	return crowded(ills, nodes-quorum)
}

// crowded returns when more than so many of the spans meet.
func crowded(spans []simSpans, most int) (all simSpans) {
	type edge struct {
		at time.Duration
		by int
	}
	var edges []edge
	for _, times := range spans {
		for _, t := range times {
			edges = append(edges, edge{t.from, 1}, edge{t.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), b.by-a.by) })
	meet := 0
	for _, e := range edges {
		before := meet
		if meet += e.by; before <= most && meet > most {
			all = append(all, simSpan{e.at, math.MaxInt64})
		} else if before > most && meet <= most {
			all[len(all)-1].to = e.at
		}
	}
	return all
}
