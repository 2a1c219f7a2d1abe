package sim

import (
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
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

// resetInRenewal ends the client's connections when the next renewal of one of its
// leases is under way, if it has any, else at once.
func (c *simClient) resetInRenewal(arrive int) {
	var in time.Duration
	if held := c.held(); len(held) > 0 {
		l := testhook.Lease(held[0].lease)
		if next, _ := l.Schedule(); next < l.Until() {
			in = c.trueTime(next) - c.run.world.Now() + c.run.plan.trip[0]*3/4
		}
	}
	time.AfterFunc(in, func() {
		c.run.wellness.suffers(c.run.all(), c.index, simReconnects)
		for _, l := range c.links {
			l.Reset(arrive, 0)
		}
	})
}

// flap lets a holder reach q-1 nodes for a while, then none, then others, which make a
// quorum with those only if votes of different renewals are added up.
func (c *simCaller) flap(turn uint64) {
	p := c.client.run.plan
	nodes := c.client.run.all()
	first, second := nodes, nodes // those that it cannot reach
	from := int(c.roll(turn, 20, uint64(p.nodes)))
	for i := range p.quorum() - 1 {
		first.Remove((from + i) % p.nodes)
	}
	second.Remove((from + p.quorum() - 1) % p.nodes)
	ttl := p.ttls[c.client.index]
	steps := []struct {
		apart quorum.NodeSet
		last  time.Duration
	}{{first, ttl/3 + c.span(turn, 21, ttl/4)}, {nodes, c.span(turn, 22, ttl/4)}, {second, ttl * 3 / 2}, {0, 0}}
	var at time.Duration
	for _, s := range steps {
		time.AfterFunc(at, func() {
			if c.client.run.awake() >= p.busy {
				return
			}
			c.client.block(nodes, 3, false)
			c.client.block(s.apart, 3, true)
			c.client.run.history.note("client %d does not reach %b", c.client.index, s.apart)
		})
		at += s.last
	}
}

// majorityForgets wipes a quorum of the nodes while the client holds a lease with a ttl
// that others may not know, and cuts the client off, so that it cannot name that ttl.
func (c *simCaller) majorityForgets(turn uint64) {
	r := c.client.run
	r.history.note("client %d is cut off, and a majority forgets", c.client.index)
	c.client.block(r.all(), 3, true)
	first := int(c.roll(turn, 23, uint64(r.plan.nodes)))
	for i := range r.plan.quorum() {
		r.wipe((first + i) % r.plan.nodes)
	}
}

// edge holds back the messages of the lease's renewals, in one direction or both, until
// around the last nanosecond of its validity.
func (c *simCaller) edge(v *simVisit, turn uint64) {
	off := []time.Duration{-time.Millisecond, -10 * time.Microsecond, -2, -1, 0, 1, 2, 10 * time.Microsecond,
		c.client.run.plan.ttl / 30, c.client.run.plan.ttl / 8}[c.roll(turn, 10, 10)]
	v.tried = true
	end := c.client.trueTime(testhook.Lease(v.lease).Until()) + off
	time.AfterFunc(end-off-c.client.run.world.Now()+time.Microsecond, func() { v.dead.Store(!v.lease.Valid()) })
	ways := 1 + int(c.roll(turn, 11, 3))
	c.client.run.history.note("client %d is cut off until %v from its validity's end, ways %d", c.client.index, off, ways)
	c.client.block(c.client.run.all(), ways, true)
	time.AfterFunc(end-c.client.run.world.Now(), func() {
		if !c.client.isDead() && c.client.run.awake() < c.client.run.plan.busy {
			c.client.block(c.client.run.all(), ways, false)
		}
	})
}
