package redlock

import "time"

// simTailLoss is the schedule for which admission exists: a lease stands on exactly q
// nodes, one of them forgets it, and the others of the q do not answer.
type simTailLoss struct {
	client *simClient
	turn   uint64
	apart  nodeSet // nodes that never hear of the lease
	disks  []any
}

// newTailLoss keeps the client from all but q nodes.
func (c *simClient) newTailLoss(turn uint64) *simTailLoss {
	p := c.run.plan
	t := &simTailLoss{client: c, turn: turn}
	first := int(c.roll(turn, 12, uint64(p.nodes)))
	for i := range p.nodes - p.quorum() {
		t.apart.add((first + i) % p.nodes)
	}
	for _, s := range c.run.servers {
		t.disks = append(t.disks, s.Snapshot())
	}
	c.run.history.note("client %d is kept from %b", c.index, t.apart)
	c.block(t.apart, 3, true)
	return t
}

// strike lets it happen, once the lease is granted.
func (t *simTailLoss) strike() {
	c, r := t.client, t.client.run
	inTime := func() bool { return r.awake() < r.plan.busy } // else all is well again
	if !inTime() {
		return
	}
	crashed := false
	for i := range r.plan.nodes {
		switch {
		case t.apart.has(i):
		case !crashed:
			crashed = true
			if c.roll(t.turn, 40, 2) == 0 {
				t.apart.add(i)
				c.block(t.apart, 3, true)
			}
			r.history.note("node %d forgets the lease", i)
			r.servers[i].Crash(false)
			r.history.forgets(i)
			disk := t.disks[i]
			r.outdate(i)
			if c.roll(t.turn, 13, 2) == 0 {
				disk = nil
			}
			r.write(i, disk)
			time.AfterFunc(c.span(t.turn, 14, 3*time.Millisecond), func() {
				if inTime() {
					r.servers[i].Start(disk)
				}
			})
		case c.roll(t.turn, 16+uint64(i), 3) == 0:
			// It remembers, and tells.
		default:
			r.history.note("node %d freezes", i)
			r.servers[i].Freeze(true)
			time.AfterFunc(c.span(t.turn, 15, 2*r.plan.ttls[c.index]), func() {
				if inTime() {
					r.servers[i].Freeze(false)
				}
			})
		}
	}
}

func (t *simTailLoss) over() {
	if !t.client.isDead() {
		t.client.block(t.apart, 3, false)
	}
}
