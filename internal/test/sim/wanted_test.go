package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock"
)

// Holders that are told that others want their lock: most let go, some go on.

// drawWanted decides whether leases are WithWanted.
func drawWanted(p *simPlan, draw *rand.Rand) { p.uses.wanted = draw.IntN(4) == 0 }

// operates is a turn of an operator: now and then a caller asks the holder of a lock to let it go, or
// takes a slot away. It reports whether it has done so.
func operates(c *simCaller, turn uint64) bool {
	r := c.client.run
	p := r.plan
	if r.awake() <= p.calm || r.awake() >= p.busy {
		return false
	}
	switch {
	case p.uses.wanted && c.roll(turn, 131, 12) == 0:
		c.ask(fmt.Sprintf("lock-%d", c.roll(turn, 1, uint64(p.locks))))
	case p.uses.forceSlots && c.roll(turn, 132, 25) == 0:
		c.force(slotName(int(c.roll(turn, 133, uint64(p.sizeMost())))))
	default:
		return false
	}
	return true
}

// ask calls Ask.
func (c *simCaller) ask(lock string) {
	r := c.client.run
	c.random.await()
	over := r.watchdog.does("%v's Ask for %s", c, lock)
	err := c.client.client.Ask(c.life, lock)
	over()
	r.history.note("%v asks the holder of %s to let go: %v", c, lock, err)
	if errors.Is(err, redlock.ErrConfig) || errors.Is(err, redlock.ErrHeld) {
		r.history.fail("%v cannot ask the holder of %s: %v", c, lock, err)
	}
}

// listens records when the holder of a lease that is WithWanted is told.
func (v *simVisit) listens() {
	wanted, done, h := v.lease.Wanted(), v.lease.Done(), v.history
	if wanted == nil {
		return
	}
	go func() {
		select {
		case <-wanted:
			at := h.now()
			h.mu.Lock()
			defer h.mu.Unlock()
			v.told = at
		case <-done:
		}
	}()
}

// letsGo reports whether a holder lets go at a check, since it was told that others want the lock. A
// quarter of the holders go on.
func letsGo(v *simVisit, check uint64) bool {
	wanted := v.lease.Wanted()
	if wanted == nil || v.tried || v.caller.roll(uint64(v.token), 134, 4) == 0 {
		return false
	}
	select {
	case <-wanted:
		v.history.note("%v lets go of %s, token %d, since others want it", v.caller, v.name(), v.token)
		return true
	default:
		return false
	}
}

// simTold is how long it may take beside a third of a ttl, when renewals are due, until a holder is told of a waiter.
const simTold = time.Second

// untold checks that a holder is told of a waiter in time, where all nodes are well for both clients.
func untold(h *simHistory) (wrong []string) {
	if !h.plan.uses.wanted || h.plan.odds != (simOdds{}) || !h.plan.renewal || h.outside != "" {
		return nil
	}
	for _, v := range h.visits {
		if v.lease == nil || v.lease.Wanted() == nil || v.told > 0 && v.told <= v.answered {
			continue
		}
		for _, w := range h.visits {
			since := max(w.called, v.answered, h.plan.calm)
			until := since + v.terms().Lease.TTL*2/3 + simTold
			if w == v || !w.waits || w.reads && v.reads || !overlap(v, w) || w.answered < until || v.ended < until ||
				v.told > 0 && v.told <= until || v.sharedAt > 0 || v.lost || isUnwell(h, v, since, until) || isUnwell(h, w, w.called, until) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%v's lease, token %d, was not told until %v (told: %v) that %v waits for %s since %v",
				v.caller, v.token, until, v.told, w.caller, w.name(), w.called))
		}
	}
	return wrong
}

// isUnwell reports whether a node was not well for the client of a call, or the client was not.
func isUnwell(h *simHistory, v *simVisit, from, to time.Duration) bool {
	c := v.caller.client
	if c.diedAt > 0 && c.diedAt <= to || c.closedAt > 0 && c.closedAt <= to {
		return true
	}
	for i := range h.plan.nodes {
		if h.run.wellness.ill(i, c.index).touch(from, to) {
			return true
		}
	}
	return false
}
