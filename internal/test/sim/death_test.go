package sim

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// lastsAfterDeath returns how long what a client has at the nodes may last after its death: for the
// ttl of its longest lease, or for as long as a node may keep a refused attempt, and then the key
// that the attempt became; by the slowest server's clock.
func (c *simClient) lastsAfterDeath() time.Duration {
	p := c.run.plan
	ttl := p.longestOf(p.ttls[c.index])
	if p.uses.lengths { // an ExtendTo is for a multiple of the time that the keys last, and the delay comes on top
		usual := p.ttls[c.index]
		if p.uses.longer {
			usual = p.longerThan(usual)
		}
		ttl = max(ttl, p.longerThan(usual+p.uses.delay)+p.uses.delay)
	}
	return max(ttl, 2*protocol.ReservationTTL)*102/100 + 10*time.Millisecond
}

// outlives checks that nodes have nothing more of a client that died so long ago, whatever others
// did meanwhile.
func (r *simRun) outlives(c *simClient, ago time.Duration) {
	if r.plan.uses.lateness || r.plan.setBack { // keys last longer where a clock was set back
		return
	}
	for i, s := range r.servers {
		for _, p := range possessions(s) {
			if c.owns(p) && p.left > 0 && !p.void {
				r.history.fail("client %d died %v ago, and node %d still has %v", c.index, ago, i, p)
			}
		}
	}
}
