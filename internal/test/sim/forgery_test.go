package sim

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// letForge has a client forge a text now and then: from one of an earlier transfer, and an owner
// that it has seen.
func letForge(c *simCaller, o *simTransfer, turn uint64) {
	r := c.client.run
	if c.roll(turn, 93, 3) > 0 {
		return
	}
	in := c.span(turn, 94, 4*r.plan.ttl)
	by := r.clients[c.roll(turn, 95, uint64(r.plan.clients))]
	place := resumerPlace(c, turn, 9)
	r.work.Go(func() {
		time.Sleep(in)
		if !by.isOver() && r.awake() < r.plan.busy {
			forge(by.newResumer(place), o)
		}
	})
}

// forge resumes the lease that holds the lock now, by a text with its owner, which every refused
// caller sees. The holder has not transferred it, so nobody may get it.
func forge(c *simCaller, o *simTransfer) {
	h := &c.client.run.history
	h.mu.Lock()
	leases := h.leases(o.of.name())
	h.mu.Unlock()
	at := slices.IndexFunc(leases, func(v *simVisit) bool { return v.lease.Valid() && canTransfer(v) })
	t, err := protocol.ParseTransferText(o.text)
	if at < 0 || err != nil { // noteTransfer has said so
		return
	}
	holder := leases[at]
	t.Secret = holder.lease.Owner()
	h.note("%v forges a text for token %d of %v", c, holder.token, holder.caller)
	if lease, err := c.client.client.Resume(c.life, t.String(), withRandom(c.random)); err == nil {
		h.fail("%v: %v resumed token %d of %v by a forged text", o, c, holder.token, holder.caller)
		_ = lease.Unlock(c.life)
	}
}
