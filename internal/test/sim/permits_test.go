package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// simLock is what a caller asks for: a *redlock.Mutex, or permits of a semaphore.
type simLock interface {
	Lock(ctx context.Context) (*redlock.Lease, error)
	TryLock(ctx context.Context) (*redlock.Lease, error)
	Do(ctx context.Context, fn func(context.Context, *redlock.Lease) error) error
}

// simPermits is so many permits of a semaphore.
type simPermits struct {
	*redlock.Semaphore
	n int
}

func (s simPermits) Lock(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, s.n) }

func (s simPermits) TryLock(ctx context.Context) (*redlock.Lease, error) {
	return s.TryAcquire(ctx, s.n)
}

func (s simPermits) Do(ctx context.Context, fn func(context.Context, *redlock.Lease) error) error {
	return s.Semaphore.Do(ctx, s.n, fn)
}

// simSemaphore is the name of the semaphore of all schedules that have one.
const simSemaphore = "semaphore"

// drawPermits decides whether callers ask for permits, and how many there are.
func (p *simPlan) drawPermits(draw *rand.Rand) {
	if draw.IntN(3) == 0 {
		p.uses.permits = []uint64{1, 2, 2, 3, 3, 10}[draw.IntN(6)]
	}
}

// permits returns so many permits of the semaphore.
func (c *simCaller) permits(n uint64, opts ...redlock.LockOption) simLock {
	return simPermits{c.client.client.Semaphore(simSemaphore, int(c.client.run.plan.size(c.client.index)), append(opts, withRandom(c.random))...), int(n)}
}

// permitsFor returns the permits of a turn: mostly few.
func permitsFor(c *simCaller, turn uint64, opts []redlock.LockOption) simLock {
	n := 1 + c.roll(turn, 58, c.client.run.plan.size(c.client.index))
	if c.roll(turn, 59, 2) == 0 {
		n = 1
	}
	return c.permits(n, opts...)
}

// permitsOf returns how many permits a call asks for; 0: it asks for a lock.
func permitsOf(v *simVisit) int {
	if s, ok := v.mutex.(simPermits); ok {
		return s.n
	}
	return 0
}

// lockOf returns the lock that a call asks for.
func lockOf(m simLock) any {
	if s, ok := m.(simPermits); ok {
		return s.Semaphore
	}
	return m
}

// checkPermits returns the violations of a semaphore: slots that two leases had at one instant, or
// that the semaphore does not have, tokens that are not in the order of a slot's leases, leases
// that were lost without a cause, and waiters that were not served though permits were free.
func checkPermits(h *simHistory) (wrong []string) {
	if h.plan.uses.permits == 0 {
		return nil
	}
	leases := h.leases(simSemaphore)
	for _, v := range leases {
		if n := len(v.lease.Slots()); n != permitsOf(v) {
			wrong = append(wrong, fmt.Sprintf("%v asked for %d permits and has %d", v.caller, permitsOf(v), n))
		}
		wrong = append(wrong, groundless(h, v)...)
	}
	wrong = append(wrong, checkSlots(h)...)
	wrong = append(wrong, maxHolds(leases)...)
	if h.plan.kind != simClocks && !h.plan.uses.lateness {
		wrong = append(wrong, permitsIdle(h)...)
	}
	return append(wrong, h.order(leases, simSemaphore)...)
}

// groundless checks that a lease that was lost while its client lived had a reason: a node was not
// well for its client, the client was suspended, or its longest time was over.
func groundless(h *simHistory, v *simVisit) (wrong []string) {
	c := v.caller.client
	if !v.lost || h.outside != "" || c.isOver() || !h.plan.renewal || v.terms().Lease.MaxHold > 0 || h.plan.odds != (simOdds{}) || isForcedSlot(h, v) {
		return nil
	}
	for i := range h.plan.nodes {
		if h.run.wellness.ill(i, c.index).touch(v.called, v.ended) {
			return nil
		}
	}
	if slices.ContainsFunc(h.run.wellness.shaken, func(at time.Duration) bool { return at >= v.called && at <= v.ended }) {
		return nil
	}
	return []string{fmt.Sprintf("%v's lease of %d permits, token %d, was lost at %v without a cause: %v",
		v.caller, permitsOf(v), v.token, v.ended, testhook.Lease(v.lease).End().Err)}
}

// permitsIdle checks that no caller waits for long while enough permits are free for it, and for
// those that asked before it.
func permitsIdle(h *simHistory) (wrong []string) {
	for _, v := range h.visits {
		if permitsOf(v) == 0 || !v.waits {
			continue
		}
		c := v.caller.client
		excuses := append(h.run.wellness.starved(c.index, h.plan.nodes, h.plan.quorum()), h.unheardDead()...)
		for _, at := range h.run.wellness.shaken {
			excuses = append(excuses, simSpan{at, at})
		}
		for _, w := range h.visits {
			if w != v && permitsOf(w) > 0 && w.waits && w.called <= v.called+headStart(v.called) {
				excuses = append(excuses, simSpan{w.called, gaveUpAt(w, v, h.plan)}, challengedLater(h, w, v))
			}
		}
		taken := tooFewFree(h, v)
		excuses = append(excuses, taken...)
		wrong = append(wrong, h.idle(v, simSemaphore, excuses)...)
		if m := h.plan.mortals; m != nil {
			for _, span := range taken { // the dead keep permits from others for as long after these became free
				excuses = append(excuses, simSpan{span.to, span.to + simDeadForPermits})
			}
			wrong = append(wrong, h.idleFor(simIdleAmongMortals, m.until, v, simSemaphore, excuses)...)
		}
	}
	return wrong
}

// challengedLater returns when a dead waiter may keep permits from a call because a live waiter stood between them: the dead ones
// behind that one are challenged when it has got its permits.
func challengedLater(h *simHistory, dead, v *simVisit) (span simSpan) {
	if dead.caller.client.diedAt == 0 {
		return span
	}
	for _, u := range h.visits {
		if u != v && permitsOf(u) > 0 && u.waits && u.lease != nil && u.called <= dead.called && u.answered > v.called {
			span.from = max(span.from, u.answered)
		}
	}
	if span.from > 0 {
		span.to = span.from + simDeadForPermits
	}
	return span
}

// tooFewFree returns when too few permits were free for a call: by the number of permits that its client
// gives the semaphore. A slot counts as taken while a caller waits for its lock: it may be reserved for
// that caller.
func tooFewFree(h *simHistory, v *simVisit) simSpans {
	size := int(h.plan.size(v.caller.client.index))
	slots := make([]simSpans, size)
	for slot := range slots {
		slots[slot] = h.taken(leasesOfSlot(h, slot), (*simVisit).held)
		for _, w := range h.visits {
			if w.waits && w.wants(slotName(slot)) {
				slots[slot] = append(slots[slot], simSpan{w.called, gaveUpAt(w, v, h.plan)})
			}
		}
		slots[slot] = merged(slots[slot])
	}
	return crowded(slots, size-permitsOf(v))
}
