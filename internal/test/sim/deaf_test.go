package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Clients that the nodes cannot wake. They find by polling what others are told, and nobody can challenge them.

// simDeafness is who cannot be woken in a plan.
type simDeafness struct {
	clients []int          // may not subscribe, at any node
	breaks  []int          // clients whose subscriptions break again and again
	nodes   quorum.NodeSet // at which scripts may not call the command
	command string         // PUBSUB or PUBLISH
}

// isNone reports whether each client can be woken.
func (d *simDeafness) isNone() bool { return d.clients == nil && d.breaks == nil && d.command == "" }

// drawDeafness decides who cannot be woken. Mortals can: how soon their permits are others' depends on challenges.
func drawDeafness(p *simPlan, draw *rand.Rand) {
	if p.mortals != nil {
		return
	}
	d := &p.deafness
	some := func() []int { return draw.Perm(p.clients)[:1+draw.IntN(p.clients)] }
	switch what := draw.IntN(8); {
	case what <= 1 || what <= 4 && p.line != nil:
		d.clients = some()
	case what == 2:
		d.command = []string{"PUBSUB", "PUBLISH"}[draw.IntN(2)]
		for _, node := range draw.Perm(p.nodes)[:1+draw.IntN(p.nodes)] {
			d.nodes.Add(node)
		}
	case what == 3:
		d.breaks = some()
		for _, client := range d.breaks {
			for node := range p.nodes {
				p.drawBreaks(draw, client, node)
			}
		}
	default:
		return
	}
	p.uses.eager = p.burst == nil && draw.IntN(4) > 0 // where a lock is free now and then, who polls gets it out of turn
}

// drawBreaks has a client's subscription at a node break again and again, while there is trouble.
func (p *simPlan) drawBreaks(draw *rand.Rand, client, node int) {
	for at := p.instant(draw); at < p.busy; at += time.Second + below(draw, 2*time.Second) {
		p.add(at, func(r *simRun) { r.clients[client].links[node].BreakSubscriptions() },
			"client %d's subscription at node %d breaks", client, node)
	}
}

// deafens takes rights away, before the clients begin.
func (r *simRun) deafens() {
	d := &r.plan.deafness
	for _, client := range d.clients {
		for _, l := range r.clients[client].links {
			l.Deafen()
		}
	}
	for node, s := range r.servers {
		if d.nodes.Has(node) {
			s.Forbid(d.command)
		}
	}
}

// polls reports whether a client may have to find by polling what others are told: too few nodes can wake it, or it
// cannot rely on that.
func (p *simPlan) polls(client int) bool {
	d := &p.deafness
	return slices.Contains(d.clients, client) || slices.Contains(d.breaks, client) || p.nodes-d.nodes.Len() < p.quorum()
}

// unheardDead returns when dead clients that could not be woken may have kept a free lock: until the key that shows
// their life at a node has ended, and others have looked.
func (h *simHistory) unheardDead() (times simSpans) {
	place := 0
	for _, n := range h.plan.callers {
		place += n
	}
	shown := max(3500*time.Millisecond, time.Duration(place)*625*time.Millisecond+time.Second)
	for _, c := range h.run.clients {
		if c.diedAt > 0 && h.plan.polls(c.index) {
			times = append(times, simSpan{c.diedAt, c.diedAt + shown + 3*time.Second})
		}
	}
	return times
}

// missedTurns returns how many turns a waiter that polls may miss, and for how long others may pass it each time: from
// the end of its reservation until it polls. It polls by its position, which shrinks, or about a second after another
// waiter of its client, which stood ahead of it, has got the lock. It may miss a turn for itself, and for each of those.
func (v *simVisit) missedTurns() (turns int, passable time.Duration) {
	if !v.history.plan.polls(v.caller.client.index) {
		return 0, 0
	}
	position := 1
	for _, w := range v.history.visits {
		if w == v || !w.waits || w.called > v.called+headStart(v.called) || w.answered < v.called || !overlap(v, w) {
			continue
		}
		position++
		if w.caller.client == v.caller.client {
			turns++
		}
	}
	return 1 + turns, max(1200*time.Millisecond, time.Duration(position)*300*time.Millisecond) - protocol.ReservationTTL
}
