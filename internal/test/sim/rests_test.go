package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// Leases with a minimum hold, after which a lock rests.

// simUsualRest is the longest minimum hold of most leases: others wait meanwhile.
const simUsualRest = 2 * time.Second

// drawRests decides whether some calls ask for a minimum hold. In a third of these plans
// clients have no right to close their old connections: renewals that were sent there may arrive behind the
// release.
func (p *simPlan) drawRests(draw *rand.Rand) {
	p.uses.rests = draw.IntN(4) == 0
	p.uses.lateness = p.uses.rests && draw.IntN(3) == 0
}

// minHoldFor returns the option of a call that asks for a lock alone, in half of the turns of plans with
// minimum holds; else nil.
func minHoldFor(c *simCaller, turn uint64, ttl time.Duration) []redlock.LockOption {
	if !c.client.run.plan.uses.rests || c.roll(turn, 90, 2) == 0 {
		return nil
	}
	longest := min(ttl, simUsualRest)
	if c.roll(turn, 93, 4) == 0 {
		longest = ttl
	}
	return []redlock.LockOption{redlock.WithMinHold(1 + c.span(turn, 91, longest))}
}

// endsLate reports whether the lock may stay taken after its lease: then the lease cannot be downgraded.
func endsLate(v *simVisit) bool { return v.terms().Lease.MinHold > 0 || v.terms().Lease.Delayed }

// renewsLate calls Extend before a lease with a minimum hold is released, in a third of the turns of plans
// with lateness. The client's connections end at once, and the renewals arrive before the minimum hold
// is over: mostly behind the release, which takes another connection.
func renewsLate(c *simCaller, v *simVisit, turn uint64) {
	r := c.client.run
	left := restsUntil(v) - r.history.now()
	if !r.plan.uses.lateness || left <= 0 || r.awake() >= r.plan.busy || c.roll(turn, 94, 3) > 0 {
		return
	}
	late := c.span(turn, 95, left)
	time.AfterFunc(time.Microsecond, func() {
		r.history.note("client %d's connections are reset, and what was sent there arrives %v later", c.client.index, late)
		r.wellness.suffers(r.all(), c.client.index, late+simReconnects)
		for _, l := range c.client.links {
			l.Reset(math.MaxInt, late)
		}
	})
	_ = v.prolong("extend", v.lease.Extend)
}

// restsUntil returns until when, by the true time, the lock is kept from others by the minimum hold of a
// lease; 0 if it has none.
func restsUntil(v *simVisit) time.Duration {
	least := v.terms().Lease.MinHold
	if least == 0 {
		return 0
	}
	return v.began + least - time.Duration(float64(least)*driftFactor)
}

// rests checks that no lease is granted before the minimum hold of one that was granted before it is over,
// except where ForceUnlock took the lock away.
func rests(h *simHistory, leases []*simVisit, lock string) (wrong []string) {
	for i, b := range leases {
		for _, a := range leases[:i] {
			if b.answered >= restsUntil(a) || isExcused(h, a, b, lock) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("the minimum hold of %s until %v, of the lease of %v (token %d), granted at %v, was not over when %v (token %d) got it at %v",
				lock, restsUntil(a), a.caller, a.token, a.answered, b.caller, b.token, b.answered))
		}
	}
	return wrong
}

// forgetRests records that a node's server ends, and may have forgotten the releases after which locks
// rested there.
func forgetRests(h *simHistory, node int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.rested {
		if key.node == node {
			h.rested[key] = false
		}
	}
}

// simRested is an owner after whose release a lock rested at a node.
type simRested struct {
	owner string
	node  int
}

// noteRest records a release after which a lock rests at a node, and a renewal that makes the key
// that rests a lease's again.
func noteRest(r *simRun, node int, args []string, reply any) {
	if args[0] != "EVALSHA" && args[0] != "EVAL" {
		return
	}
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	switch args[1] {
	case protocol.Rest.SHA(), protocol.Rest.Text():
		const ms, owner = 6, 7                                                                       // behind the script and its three keys
		if left, _ := strconv.Atoi(args[ms]); left > 0 && (reply == int64(1) || reply == int64(4)) { // not if it was refused
			h.rested[simRested{args[owner], node}] = true
		}
	case protocol.Renew.SHA(), protocol.Renew.Text():
		const owner = 6 // behind the script and its three keys
		key := simRested{args[owner], node}
		switch {
		case reply == int64(2) && h.rested[key]: // it had ended
			h.rested[key] = false
		case reply == int64(1) && h.rested[key]:
			h.failures = append(h.failures, fmt.Sprintf("node %d ended the minimum hold of %q for a renewal", node, args[owner]))
		}
	}
}

// restsOfLeases checks that locks rest after leases alone, and not after attempts that failed.
func restsOfLeases(h *simHistory) (wrong []string) {
	held := make(map[string]bool)
	unknown := make(map[string]bool) // marks of clients with a lease that ended before its Do learned the owner
	for _, v := range h.visits {
		if v.lease != nil {
			held[v.lease.Owner()] = true
		} else if v.works || errors.Is(v.err, redlock.ErrClosed) || errors.Is(v.err, redlock.ErrLost) {
			unknown[v.caller.client.random.mark()] = true
		}
	}
	var owners []string
	for key := range h.rested {
		owners = append(owners, key.owner)
	}
	slices.Sort(owners)
	for _, owner := range slices.Compact(owners) {
		if !held[owner] && !unknown[markOf(owner)] {
			wrong = append(wrong, fmt.Sprintf("a lock rested for the minimum hold of %q, which was no lease", owner))
		}
	}
	return wrong
}

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
