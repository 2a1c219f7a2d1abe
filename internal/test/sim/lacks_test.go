package sim

import (
	"math/rand/v2"

	"github.com/redlock-go/redlock/internal/quorum"
)

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
