package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// Leases with a lock delay: after one that ended by itself, its keys keep the lock from others.

// simLongestDelay is the longest lock delay. Together with simLongest it is less than the twenty
// seconds for which nodes do not vote after a majority forgot.
const simLongestDelay = 1500 * time.Millisecond

// drawDelays decides whether some calls have a lock delay, and how long it is. It is the same for
// all of them, since a ttl that the nodes do not know yet costs its first caller a trip.
func (p *simPlan) drawDelays(draw *rand.Rand) {
	if draw.IntN(4) == 0 {
		p.uses.delay = time.Millisecond + below(draw, simLongestDelay).Truncate(time.Millisecond)
	}
}

// delayFor returns the option of a call that asks for a lock alone, in half of the turns of plans with
// a lock delay; else nil.
func delayFor(c *simCaller, turn uint64) []redlock.LockOption {
	d := c.client.run.plan.uses.delay
	if d == 0 || c.roll(turn, 92, 2) == 0 {
		return nil
	}
	return []redlock.LockOption{redlock.WithLockDelay(d)}
}

// isDelayed reports whether a lease has a lock delay, and ended by itself.
func isDelayed(v *simVisit) bool {
	if v.lease == nil || !v.terms().Lease.Delayed {
		return false
	}
	end := testhook.Lease(v.lease).End()
	return end != nil && end.IsLoss() && end.Reason != lease.Revoked
}

// delays checks that no lease is granted before the lock delay of one that ended by itself is over,
// except where ForceUnlock took the lock away.
func delays(h *simHistory, leases []*simVisit, lock string) (wrong []string) {
	for i, b := range leases {
		for _, a := range leases[:i] {
			if !isDelayed(a) {
				continue
			}
			delay := h.plan.uses.delay
			until := a.caller.client.trueTime(testhook.Lease(a.lease).Until()) + delay - time.Duration(float64(delay)*driftFactor)
			if b.answered >= until || isExcused(h, a, b, lock) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("the lock delay of %s until %v, after the lease of %v (token %d), was not over when %v (token %d) got it at %v",
				lock, until, a.caller, a.token, b.caller, b.token, b.answered))
		}
	}
	return wrong
}

// stays reports whether what a node has is the key of a lease that ended by itself, with a lock delay:
// nothing releases it, and it ends with its ttl. A server that was frozen may have executed a renewal late.
func stays(h *simHistory, p simPossession) bool {
	return slices.ContainsFunc(h.visits, func(v *simVisit) bool {
		return isDelayed(v) && v.lease.Owner() == p.owner && p.left <= keysLast(v)*102/100
	})
}
