package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// simForce is a call of ForceUnlock.
type simForce struct {
	caller   *simCaller
	lock     string
	token    int64
	err      error
	called   time.Duration // true times
	answered time.Duration
}

// forces records that a caller begins a ForceUnlock.
func (h *simHistory) forces(c *simCaller, lock string) *simForce {
	f := &simForce{caller: c, lock: lock, called: h.now(), answered: math.MaxInt64, err: redlock.ErrNoQuorum}
	h.mu.Lock()
	h.forced = append(h.forced, f)
	h.mu.Unlock()
	h.note("%v forces %s", c, lock)
	return f
}

// returned records its result.
func (f *simForce) returned(s redlock.Status, err error) {
	r := f.caller.client.run
	f.token, f.err, f.answered = s.Token, err, r.history.now()
	r.history.note("%v has forced %s: token %d, holder %q, %v", f.caller, f.lock, s.Token, s.Holder, err)
	r.wellness.shakes()
}

// excuses reports whether two leases of its lock may overlap since that was taken from the first
// one. ForceUnlock takes a key only from a holder that it found there, so the first one
// had asked for the lock before ForceUnlock returned.
func (f *simForce) excuses(a, b *simVisit) bool {
	return f.called <= b.answered && a.began <= f.answered
}

// isExcused reports whether two leases of a lock may overlap because a ForceUnlock may have taken that
// lock from the first one.
func isExcused(h *simHistory, a, b *simVisit, lock string) bool {
	return slices.ContainsFunc(h.forced, func(f *simForce) bool { return f.lock == lock && f.excuses(a, b) })
}

// seizures returns the successful calls of ForceUnlock as leases, which they are for a
// moment.
func (h *simHistory) seizures(lock string) (all []*simVisit) {
	for _, f := range h.forced {
		if f.lock == lock && f.err == nil {
			all = append(all, &simVisit{history: h, caller: f.caller, token: f.token, began: f.called, answered: f.answered, ended: f.answered, lost: true})
		}
	}
	return all
}

// revoked checks that a lease whose lock was taken away is not renewed any more: it ends
// with the validity that it had. It may be renewed where ForceUnlock and the renewal have no
// quorum of nodes in common that are well.
func (h *simHistory) revoked(leases []*simVisit, lock string) (wrong []string) {
	for _, f := range h.forced {
		for _, v := range leases {
			most := keysLast(v) * 11 / 10
			if f.lock == lock && f.err == nil && v.answered < f.called && v.ended > f.answered+most &&
				h.wellFor(f.caller.client, v.caller.client, f.called, f.answered+most) >= h.plan.quorum() {
				wrong = append(wrong, fmt.Sprintf("%v's lock was taken away by %v; its lease, token %d, went on until %v", v.caller, f.answered, v.token, v.ended))
			}
		}
	}
	return wrong
}

// wellFor returns how many nodes were well for two clients all the time.
func (h *simHistory) wellFor(a, b *simClient, from, to time.Duration) (nodes int) {
	w := h.run.wellness
	for i := range h.plan.nodes {
		if !w.ill(i, a.index).touch(from, to) && !w.ill(i, b.index).touch(from, to) {
			nodes++
		}
	}
	return nodes
}

// refused records that a call failed. It must not fail with ErrClosed unless its client
// was closed.
func (v *simVisit) refused(err error) {
	c := v.caller.client
	if errors.Is(err, redlock.ErrClosed) && !c.isOver() {
		v.history.fail("%v is told that its client is closed: %v", v.caller, err)
	}
}

// maxHolds checks that no lease goes on beyond its WithMaxHold.
func maxHolds(leases []*simVisit) (wrong []string) {
	for _, v := range leases {
		if most := v.terms().Lease.MaxHold; most > 0 {
			if limit := v.began + time.Duration(float64(most)/v.caller.client.rate) + time.Millisecond; v.ended > limit {
				wrong = append(wrong, fmt.Sprintf("%v's lease, token %d, of at most %v, went on from %v until %v", v.caller, v.token, most, v.began, v.ended))
			}
		}
	}
	return wrong
}

// closes checks a client that was closed just now: Close took so long while the machine
// was awake, which must not be long, and nothing of the client stays at nodes that were
// well for it.
func (h *simHistory) closes(c *simClient, began, took time.Duration) {
	most := testhook.Engine(c.client).NodeTimeout
	if h.plan.uses.longer {
		most *= 3
	}
	if len(h.forced) > 0 {
		most += 4 * protocol.ReservationTTL
	}
	// A node may show a sign of life just before it is given up, and its connection may
	// break just before it is given up again: each of these is awaited for a node timeout
	// and a quarter, as are the attempts under way. A node that has forgotten its scripts
	// shows one more, before it gets the release's text.
	waits := 3
	if h.plan.uses.flushes {
		waits++
	}
	if took > time.Duration(waits)*most*5/4+most/4 {
		h.fail("client %d's Close took %v", c.index, took)
	}
	time.Sleep(simSettles)
	if c.isDead() || h.plan.uses.lateness {
		return
	}
	for _, v := range c.held() {
		if v.works {
			return // its keys stay until its Do is over
		}
	}
	for i, s := range c.run.servers {
		if c.run.wellness.ill(i, c.index).touch(began-simNotices, h.now()) {
			continue
		}
		for _, p := range possessions(s) {
			if c.owns(p) && p.left > 0 && !p.void && !p.rests && !isTransferred(h, p) && !stays(h, p) {
				h.fail("client %d is closed, and node %d still has %v", c.index, i, p)
			}
		}
	}
}

// simSettles is the time in which the releases of a Close must reach the nodes that are well.
const simSettles = 200 * time.Millisecond
