package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// mishap befalls a client, or its links. Where only a minority of the nodes may fail,
// nothing befalls everybody.
func (p *simPlan) mishap(draw *rand.Rand, client int) {
	at, last := p.instant(draw), below(draw, 2*p.ttl)
	switch what := draw.IntN(7); {
	case what == 6:
		p.add(at, func(r *simRun) { r.clients[client].resetInRenewal(int(last % 3)) }, "client %d's connections are reset in its next renewal", client)
	case what == 0 && p.kind != simMinority && p.kind != simCrowds:
		p.add(at, func(r *simRun) { r.suspend(last) }, "everybody is suspended for %v", last)
	case what <= 1:
		p.add(at, func(r *simRun) { r.clients[client].die() }, "client %d dies", client)
	default:
		p.cutOff(draw, client, at, last)
	}
}

// cutOff keeps a client from some nodes for a while.
func (p *simPlan) cutOff(draw *rand.Rand, client int, at, last time.Duration) {
	var from quorum.NodeSet
	for i := range p.nodes {
		if draw.IntN(2) == 0 {
			from.Add(i)
		}
	}
	p.cutOffFrom(client, from, 1+draw.IntN(3), at, last)
}

func (p *simPlan) cutOffFrom(client int, from quorum.NodeSet, ways int, at, last time.Duration) {
	p.add(at, func(r *simRun) { r.clients[client].block(from, ways, true) }, "client %d is cut off from %b, ways %d", client, from, ways)
	p.add(at+last, func(r *simRun) { r.clients[client].block(from, ways, false) }, "client %d reaches %b", client, from)
}

// ends plans the ends of clients: their Close, and deaths in the moment in which a
// lock is handed off to them.
func (p *simPlan) ends(draw *rand.Rand) {
	if draw.IntN(4) == 0 {
		client := draw.IntN(p.clients)
		p.add(p.instant(draw), func(r *simRun) { r.clients[client].close() }, "client %d closes", client)
	}
	if p.kind == simCrowds {
		for client, n := range p.callers {
			if n < 8 && draw.IntN(4) > 0 || draw.IntN(3) == 0 {
				continue
			}
			how := simDoom(1 + draw.IntN(3))
			p.add(p.instant(draw), func(r *simRun) { r.clients[client].doom.Store(int32(how)) }, "client %d's next turn is its last (%s)", client, how)
		}
	}
}

// drawLastTurns lets the machine of a client die when a lock is handed off to it. No server knows that: what is reserved
// for the client must soon be others'.
func drawLastTurns(p *simPlan, draw *rand.Rand) {
	if draw.IntN(3) > 0 || p.burst != nil || p.mortals != nil {
		return
	}
	client := 1 + 2*draw.IntN(p.clients/2)
	p.add(p.instant(draw), func(r *simRun) { r.clients[client].doom.Store(int32(simDies)) },
		"client %d's next turn is its last (%s)", client, simDies)
}

// simDoom is a fault that befalls a client when a lock is handed off to it.
type simDoom int32

const (
	simSpared simDoom = iota
	simDies
	simCut  // from all nodes, for a while
	simDumb // it receives messages, but its own do not reach the nodes
)

func (d simDoom) String() string {
	return []string{"spared", "it dies", "it is cut off", "its messages are lost"}[d]
}

// call is a Lock that waits.
type simCall struct {
	visit *simVisit
	quit  func() // ends its ctx
}

// waits records a call that waits, until over is called.
func (r *simRun) waits(v *simVisit, quit func()) (over func()) {
	call := &simCall{v, quit}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[call] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, call)
	}
}

// next returns the calls that wait for a lock of v, in the order in which they were made.
func (r *simRun) next(v *simVisit) (all []*simCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for call := range r.calls {
		if overlap(call.visit, v) {
			all = append(all, call)
		}
	}
	slices.SortFunc(all, func(a, b *simCall) int {
		v, w := a.visit, b.visit
		return cmp.Or(cmp.Compare(v.called, w.called), cmp.Compare(v.caller.client.index, w.caller.client.index), cmp.Compare(v.caller.index, w.caller.index))
	})
	return all
}

// handsOff is called before a release. It may let the client of the next waiter meet its doom,
// or the next waiters give up, within a few trips.
func (c *simCaller) handsOff(v *simVisit, turn uint64) {
	r := c.client.run
	next := r.next(v)
	if len(next) == 0 || r.awake() < r.plan.calm || r.awake() >= r.plan.busy {
		return
	}
	soon := func(what uint64) time.Duration { return c.span(turn, what, 4*r.plan.trip[0]+time.Microsecond) }
	if first := next[0].visit.caller.client; first != c.client {
		if doom := simDoom(first.doom.Swap(int32(simSpared))); doom != simSpared {
			time.AfterFunc(soon(60), func() { first.meets(doom, c.span(turn, 61, 3*time.Second)) })
			return
		}
	}
	if c.roll(turn, 62, r.plan.uses.quits) > 0 {
		return
	}
	for i, call := range next[:min(len(next), 1+int(c.roll(turn, 63, 3)))] {
		time.AfterFunc(soon(64+uint64(i)), call.quit)
	}
}

// meets makes the doom befall the client. last is how long it is cut off.
func (c *simClient) meets(doom simDoom, last time.Duration) {
	r := c.run
	if c.isDead() || r.awake() >= r.plan.busy {
		return
	}
	r.history.note("client %d is given the lock: %s", c.index, doom)
	ways := 3
	switch doom {
	case simDies:
		c.die()
		return
	case simDumb:
		ways = 1
	}
	c.block(r.all(), ways, true)
	time.AfterFunc(last, func() {
		if r.awake() < r.plan.busy {
			c.block(r.all(), ways, false)
		}
	})
}
