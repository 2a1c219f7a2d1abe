package sim

import (
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// simTailLoss is the schedule for which admission exists: a lease stands on exactly q
// nodes, one of them forgets it, and the others of the q do not answer.
type simTailLoss struct {
	caller *simCaller
	turn   uint64
	apart  quorum.NodeSet // nodes that never get the lease
	disks  []any
}

// newTailLoss keeps the client from all but q nodes.
func (c *simCaller) newTailLoss(turn uint64) *simTailLoss {
	p := c.client.run.plan
	t := &simTailLoss{caller: c, turn: turn}
	first := int(c.roll(turn, 12, uint64(p.nodes)))
	for i := range p.nodes - p.quorum() {
		t.apart.Add((first + i) % p.nodes)
	}
	for _, s := range c.client.run.servers {
		t.disks = append(t.disks, s.Snapshot())
	}
	c.client.run.history.note("client %d is kept from %b", c.client.index, t.apart)
	c.client.block(t.apart, 3, true)
	return t
}

// strike lets it happen, once the lease is granted.
func (t *simTailLoss) strike() {
	c, r := t.caller, t.caller.client.run
	inTime := func() bool { return r.awake() < r.plan.busy } // else all is well again
	if !inTime() {
		return
	}
	crashed := false
	for i := range r.plan.nodes {
		switch {
		case t.apart.Has(i):
		case !crashed:
			crashed = true
			if c.roll(t.turn, 40, 2) == 0 {
				t.apart.Add(i)
				c.client.block(t.apart, 3, true)
			}
			r.history.note("node %d forgets the lease", i)
			if c.roll(t.turn, 41, 3) == 0 {
				r.wipeAllButQuarantine(i)
				continue
			}
			r.crash(i, false)
			disk := t.disks[i]
			r.outdate(i)
			if c.roll(t.turn, 13, 2) == 0 {
				disk = nil
			}
			r.write(i, disk)
			time.AfterFunc(c.span(t.turn, 14, 3*time.Millisecond), func() {
				if inTime() {
					r.start(i)
				}
			})
		case c.roll(t.turn, 16+uint64(i), 3) == 0:
			// It remembers the lease, and shows it.
		default:
			r.history.note("node %d freezes", i)
			r.freeze(i, true)
			time.AfterFunc(c.span(t.turn, 15, 2*r.plan.ttls[c.client.index]), func() {
				if inTime() {
					r.freeze(i, false)
				}
			})
		}
	}
}

func (t *simTailLoss) over() {
	if !t.caller.client.isDead() {
		t.caller.client.block(t.apart, 3, false)
	}
}
