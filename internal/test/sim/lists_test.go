package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Two lists of masters: some clients have spare servers in the place of some of the plan's nodes, as in a roll-out that came too
// early. The lists are related (docs/safety.md, Lists of masters), and a majority of one may have no server of a majority of the other.

// simLists is who has which list. The servers behind the plan's nodes are the spares.
type simLists struct {
	replaced []int  // the nodes that a spare each replaces
	other    []bool // by client: it has the spares
}

// servers returns how many servers there are.
func (p *simPlan) servers() int { return len(p.nodeRate) }

// reaches returns the servers that a client may connect to: first those that its settings name.
func (p *simPlan) reaches(client int) (all []int) {
	for n := range p.nodes {
		all = append(all, n)
	}
	if p.changes {
		for n := p.nodes; n < p.servers(); n++ {
			all = append(all, n)
		}
	}
	if l := p.lists; l != nil && l.other[client] {
		for i, n := range l.replaced {
			all[n] = p.nodes + i
		}
	}
	return all
}

// drawLists decides that clients have two lists, in some of the schedules that break no assumption.
func drawLists(p *simPlan, draw *rand.Rand) {
	if draw.IntN(4) > 0 || p.outside != "" || p.setBack || p.burst != nil || p.mortals != nil || p.line != nil || p.lacks != nil {
		return
	}
	l := &simLists{replaced: draw.Perm(p.nodes)[:1+draw.IntN(p.quorum()-1)], other: make([]bool, p.clients)}
	for i, client := range draw.Perm(p.clients) {
		l.other[client] = i == 0 || i > 1 && draw.IntN(2) == 0
	}
	for i := range l.replaced {
		p.addServerClock(draw)
		p.trip = append(p.trip, p.trip[draw.IntN(p.nodes)])
		p.victims.Add(p.nodes + i)
	}
	p.lists = l
	for range draw.IntN(4) { // some of it while the lists begin
		p.failsFor(draw, draw.IntN(p.servers()), below(draw, p.busy), p.calm)
	}
	for range draw.IntN(3) {
		p.cutsFor(draw, below(draw, p.calm), p.calm)
	}
	p.wipesShared(draw)
}

// wipesShared takes the memory of the masters that both lists have, of all of them or of some, so that either list may begin,
// or begin again. Meanwhile some of the other servers may be away.
func (p *simPlan) wipesShared(draw *rand.Rand) {
	at, all := p.busy, draw.IntN(3) > 0
	for n := range p.servers() {
		switch {
		case n < p.nodes && !slices.Contains(p.lists.replaced, n) && (all || draw.IntN(2) == 0):
			if away := below(draw, time.Second); draw.IntN(2) == 0 {
				p.crashWith(n, at, away, simEmpty, 0, draw.IntN(3) == 0)
			} else {
				p.add(at+away, func(r *simRun) { r.wipe(n) }, "node %d is wiped", n)
			}
		case draw.IntN(4) == 0:
			p.failsFor(draw, n, at, 2*admission.MajorityLossGuard)
		}
	}
	if draw.IntN(2) == 0 {
		p.cutsFor(draw, at, 2*admission.MajorityLossGuard)
	}
	p.busy += admission.MajorityLossGuard*102/100 + simAdmitting + below(draw, 10*time.Second)
}

// failsFor makes a server fail, for so long at most.
func (p *simPlan) failsFor(draw *rand.Rand, node int, at, most time.Duration) {
	last := below(draw, most)
	switch draw.IntN(3) {
	case 0:
		p.wipe(draw, node, at)
	case 1:
		p.crashWith(node, at, last, draw.IntN(3), below(draw, time.Second), draw.IntN(3) == 0)
	default:
		p.freezes(node, at, at+last)
	}
}

// cutsFor cuts a client off from some servers, for so long at most.
func (p *simPlan) cutsFor(draw *rand.Rand, at, most time.Duration) {
	client := draw.IntN(p.clients)
	var nodes quorum.NodeSet
	for _, n := range draw.Perm(p.servers())[:1+draw.IntN(p.servers())] {
		nodes.Add(n)
	}
	p.cutOffFrom(client, nodes, 1+draw.IntN(3), at, below(draw, most))
}

// mayLackVotes reports whether a client may get no lock even where all is well: a list is in force that is not its own, or none.
func (r *simRun) mayLackVotes(c *simClient) bool {
	if r.plan.lists == nil {
		return false
	}
	standing := 0
	for _, n := range c.nodes {
		for _, k := range r.servers[n].Keys() {
			if k.Name == protocol.MembersKey && r.isListOf(k.Fields["masters"], c.nodes) {
				standing++
			}
		}
	}
	return standing < r.plan.nodes
}

// isListOf reports whether a list has these servers as its masters.
func (r *simRun) isListOf(masters string, servers []int) bool {
	var names []string
	for _, n := range servers {
		names = append(names, r.servers[n].String())
	}
	return slices.Equal(strings.Fields(masters), slices.Sorted(slices.Values(names)))
}
