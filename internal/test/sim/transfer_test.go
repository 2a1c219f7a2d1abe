package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Transfers: a holder transfers its lease instead of releasing it, and goes on; clients resume
// the lease, none, one or two of them.

// simTransfer is a lease that was transferred.
type simTransfer struct {
	of    *simVisit
	text  string
	value string        // of the lock's key since then
	at    time.Duration // when Transfer returned, by the true time
	until time.Duration // the end of the lease's validity, by the true time

	resumed []*simVisit // the calls of Resume, in their order; protected by history.mu
}

// drawTransfers decides whether holders transfer their leases.
func (p *simPlan) drawTransfers(draw *rand.Rand) { p.uses.transfers = draw.IntN(4) == 0 }

// canTransfer reports whether a lease is of a kind that can be transferred.
func canTransfer(v *simVisit) bool {
	return !v.reads && v.sharedAt == 0 && !v.isSet() && permitsOf(v) == 0 && !endsLate(v)
}

// transfers transfers a lease now and then, and has clients resume it. It reports whether it has. If it has not,
// the caller still has to release the lease.
func transfers(c *simCaller, v *simVisit, turn uint64) bool {
	r := c.client.run
	if !r.plan.uses.transfers || !canTransfer(v) || c.client.isDead() || r.awake() >= r.plan.busy || c.roll(turn, 70, 2) == 0 {
		return false
	}
	c.random.await()
	h := &r.history
	if c.roll(turn, 90, 4) == 0 {
		// The nodes may have executed it: the lease goes on all the same.
		ctx, cancel := context.WithTimeout(c.life, c.span(turn, 91, 2*slices.Max(r.plan.trip))+time.Microsecond)
		defer cancel()
		text, err := v.lease.Transfer(ctx)
		if h.note("%v transfers token %d, with little time: %v", c, v.token, err); err == nil {
			return transferred(c, v, text, turn)
		}
		if v.works || c.roll(turn, 96, 2) == 0 {
			return false
		}
		v.keptAt = h.now()
		select {
		case <-c.life.Done():
			return false
		case <-time.After(min(c.span(turn, 92, 3*v.terms().Lease.TTL), max(r.plan.busy-r.awake(), 0))):
		}
		if lost := (*redlock.LostError)(nil); errors.As(v.lease.Err(), &lost) {
			v.keptUntil = h.now()
			return false
		}
		if r.plan.knows(5) {
			c.random.await() // two of a client's callers may have waited until the trouble is over
		}
	}
	text, err := v.lease.Transfer(c.life)
	h.note("%v transfers token %d: %v", c, v.token, err)
	if errors.Is(err, redlock.ErrConfig) || errors.Is(err, redlock.ErrTransferred) {
		h.fail("%v cannot transfer token %d: %v", c, v.token, err)
	}
	if err != nil {
		return false
	}
	return transferred(c, v, text, turn)
}

// transferred checks a lease that was transferred, and has clients resume it.
func transferred(c *simCaller, v *simVisit, text string, turn uint64) bool {
	h := &c.client.run.history
	o := noteTransfer(h, v, text)
	if v.lease.Valid() || !errors.Is(v.lease.Err(), redlock.ErrTransferred) || !errors.Is(v.lease.Extend(c.life), redlock.ErrTransferred) {
		h.fail("%v's lease, token %d, goes on after it was transferred: %v", c, v.token, v.lease.Err())
	}
	if err := v.lease.Unlock(c.life); err != nil {
		h.fail("%v's unlock of token %d, which was transferred: %v", c, v.token, err)
	}
	letResume(c, o, turn)
	letForge(c, o, turn)
	return true
}

// noteTransfer records that a lease was transferred just now.
func noteTransfer(h *simHistory, v *simVisit, text string) *simTransfer {
	t, err := protocol.ParseTransferText(text)
	if err != nil {
		h.fail("%v transferred token %d, and the text cannot be read: %v", v.caller, v.token, err)
		t = new(protocol.TransferText)
	}
	c := v.caller.client
	// The text has whole microseconds.
	o := &simTransfer{of: v, text: text, value: protocol.TransferValue(t.Secret, t.Label), at: h.now(), until: c.trueTime(c.clock() + time.Duration(t.Left+1)*time.Microsecond)}
	h.mu.Lock()
	defer h.mu.Unlock()
	v.handed = o
	h.transfers = append(h.transfers, o)
	return o
}

// letResume has none, one or two clients resume a lease: soon, at any time before its end, or so that
// the nodes execute the transfer around its end.
func letResume(c *simCaller, o *simTransfer, turn uint64) {
	r := c.client.run
	p, left, trip := r.plan, o.until-o.at, slices.Max(r.plan.trip)
	for k := range []uint64{0, 1, 1, 1, 2, 2}[c.roll(turn, 71, 6)] {
		draw := func(what, n uint64) uint64 { return c.roll(turn, 72+10*k+what, n) }
		in := time.Duration(draw(0, uint64(4*trip)))
		switch draw(1, 4) {
		case 0:
			in = time.Duration(draw(2, uint64(max(left, 1))))
		case 1, 2:
			// The end by a slow clock is later than the true one, by up to the drift of a ttl.
			late := time.Duration(draw(3, uint64(left/100+6*time.Millisecond))) - 3*time.Millisecond
			in = max(left-trip+late, 0)
		}
		by := r.clients[draw(4, uint64(p.clients))]
		place := resumerPlace(c, turn, k)
		r.work.Go(func() {
			time.Sleep(in)
			if !by.isOver() {
				resume(by.newResumer(place), o)
			}
		})
	}
}

// resumerPlace returns a place of its own for a caller that resumes a lease.
func resumerPlace(of *simCaller, turn, k uint64) int {
	return 1000 + int(mix(uint64(of.client.index), uint64(of.index), turn, k)%1_000_000_000)
}

// newResumer makes one more caller of a client. It gives up before the client's Close.
func (c *simClient) newResumer(place int) *simCaller {
	r, k := c.run, c.newCaller(place)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumers = append(r.resumers, k)
	return k
}

// others returns the callers that give up before a Close: all but the first one, in the order of their places.
func (c *simClient) others() []*simCaller {
	all := slices.Clone(c.callers[1:])
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	for _, k := range c.run.resumers {
		if k.client == c {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *simCaller) int { return a.index - b.index })
	return all
}

// resume resumes a lease, holds it for a while, and releases it or transfers it again.
func resume(c *simCaller, o *simTransfer) {
	c.random.await() // two clients may resume the lease at one instant
	r, turn := c.client.run, uint64(c.index)
	h := &r.history
	opts := []redlock.LockOption{withRandom(c.random)}
	v := h.call(c, c.client.client.Mutex(o.of.name(), opts...), false)
	noteResume(h, v, o)
	lease, err := c.client.client.Resume(c.life, o.text, opts...)
	if v.returned(lease, err); err != nil {
		notResumed(c, v, err)
		return
	}
	hold := c.span(turn, 6, r.plan.briefly())
	if c.roll(turn, 7, 4) == 0 {
		hold = c.span(turn, 8, 2*v.terms().Lease.TTL)
	}
	var at simProlongs
	if c.roll(turn, 36, 5) == 0 {
		at.extend = 1 + c.roll(turn, 37, 4)
	}
	c.visit(v, min(hold, max(r.plan.busy-r.awake(), 0)+20*time.Millisecond), at)
	if !transfers(c, v, turn) {
		c.unlock(v, turn)
	}
}

// noteResume records that a call is a Resume of a lease.
func noteResume(h *simHistory, v *simVisit, o *simTransfer) {
	h.note("%v resumes token %d, which ends at %v", v.caller, o.of.token, o.until)
	h.mu.Lock()
	defer h.mu.Unlock()
	v.from = o
	o.resumed = append(o.resumed, v)
}

// notResumed checks the error of a Resume, and that nothing stays of a lease that was not resumed.
func notResumed(c *simCaller, v *simVisit, err error) {
	r, o := c.client.run, v.from
	h, since := &r.history, v.called
	lost := errors.Is(err, redlock.ErrLost)
	switch {
	case lost, errors.Is(err, context.Canceled), errors.Is(err, redlock.ErrClosed): // refused has checked ErrClosed
	case errors.Is(err, redlock.ErrConfig):
		if n := r.illSince(c.client, o.at); n < r.plan.quorum() {
			h.fail("%v is told that no node keeps the lease with token %d, and only %d nodes were not well: %v", c, o.of.token, n, err)
		}
	default:
		h.fail("%v cannot resume token %d: %v", c, o.of.token, err)
	}
	if !lost {
		return
	}
	settles := simSettles
	if r.plan.odds == (simOdds{}) && !r.plan.uses.flushes {
		// The keys end soon by themselves: on a good network there is no need to wait for longer than the release takes.
		settles = 2*(slices.Max(r.plan.trip)+r.plan.slow[c.client.index]) + time.Millisecond
	}
	time.Sleep(settles)
	if c.client.isOver() {
		return
	}
	for i, s := range r.servers {
		if r.wellness.ill(i, c.client.index).touch(since, h.now()) || r.wellness.ill(i, o.of.caller.client.index).touch(o.at, h.now()) {
			continue
		}
		for _, p := range possessions(s) {
			if p.owner == o.value && p.left > 0 && !p.void {
				h.fail("%v did not resume token %d, and node %d still has %v", c, o.of.token, i, p)
			}
		}
	}
}

// illSince returns how many nodes have not been well for a client all the time.
func (r *simRun) illSince(c *simClient, from time.Duration) (nodes int) {
	for i := range r.plan.nodes {
		if r.wellness.ill(i, c.index).touch(from, r.history.now()) {
			nodes++
		}
	}
	return nodes
}

// isTransferred reports whether what is at a node is the key of a lease that was transferred: it stays
// until the lease is resumed, or its ttl ends: later where a clock was set back.
func isTransferred(h *simHistory, p simPossession) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.transfers, func(o *simTransfer) bool {
		return p.owner == o.value && (p.left <= keysLast(o.of) || h.plan.setBack)
	})
}

func (o *simTransfer) String() string {
	return fmt.Sprintf("the transfer of %s by %v at %v, token %d", o.of.name(), o.of.caller, o.at, o.of.token)
}
