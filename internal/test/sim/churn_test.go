package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Faults that go on during the whole time of trouble.

// drawFlushes flushes the scripts of nodes all the time.
func drawFlushes(p *simPlan, draw *rand.Rand) {
	if draw.IntN(12) > 0 || p.kind == simDeleted {
		return // an error may hide a deletion, as an answer that is lost may
	}
	p.uses.flushes = true
	every := 10*time.Millisecond + below(draw, 200*time.Millisecond)
	p.flushed = every * time.Duration(p.nodes)
	for at := p.calm; at < p.busy; at += 1 + below(draw, 2*every) {
		node := draw.IntN(p.nodes)
		p.add(at, func(r *simRun) { r.servers[node].FlushScripts() }, "node %d's scripts are flushed", node)
	}
}

// forgetsBetween reports whether nodes forget their scripts about as often as a client can make an attempt: it takes a
// round trip to learn that a script is missing, one for the grants, and one to raise the counters.
func (p *simPlan) forgetsBetween() bool {
	return p.uses.flushes && p.flushed < 3*2*slices.Max(p.trip)
}

// drawWipes lets masters lose their memory one after another, some of them more than once, with a pause: for
// which the one before may be admitted again, or not. Where a minority of the nodes fails, it is that minority.
func drawWipes(p *simPlan, draw *rand.Rand) {
	if draw.IntN(10) > 0 || p.kind == simDeleted || p.kind == simRestarts {
		return // restarts have wipes of their own, at the edge of the guard
	}
	pause := below(draw, p.ttl) + time.Millisecond
	if draw.IntN(2) == 0 {
		pause = p.longestOf(p.longest()) + simAdmitting
	}
	at := p.calm + below(draw, time.Second)
	for range 1 + draw.IntN(2) {
		for _, node := range draw.Perm(p.nodes) {
			if !p.victims.Has(node) {
				continue
			}
			p.add(at, func(r *simRun) { r.wipe(node) }, "node %d is wiped", node)
			at += pause
		}
	}
	p.busy = max(p.busy, min(at, 40*time.Second))
}

// Clients that each lack another minority of the nodes, for the whole run, once the new cluster has come to life.

// drawLacks decides which nodes each client never reaches: some of a minority.
func drawLacks(p *simPlan, draw *rand.Rand) {
	if draw.IntN(8) > 0 || p.kind == simDeleted {
		return // what a node does not answer may hide a deletion
	}
	for range p.clients {
		var lacks quorum.NodeSet
		for _, node := range draw.Perm(p.nodes)[:p.nodes-p.quorum()] {
			if draw.IntN(4) > 0 {
				lacks.Add(node)
			}
		}
		p.lacks = append(p.lacks, lacks)
	}
	p.add(p.calm, func(r *simRun) {
		for i, c := range r.clients {
			c.block(p.lacks[i], 3, true)
		}
	}, "each client lacks other nodes: %b", p.lacks)
}

// cannotAdmit reports whether a client reaches too few nodes that vote. If it lacks nodes, it may never
// reach the quorum of others whose counters a node needs to vote again, and another client may neither.
func cannotAdmit(c *simClient) bool {
	p, now := c.run.plan, c.run.history.now()
	return c.lacks() != 0 && c.run.wellness.starved(c.index, p.nodes, p.quorum()).touch(now, now)
}

// lacks returns the nodes that the client never reaches.
func (c *simClient) lacks() quorum.NodeSet {
	if all := c.run.plan.lacks; len(all) > 0 {
		return all[c.index]
	}
	return 0
}
