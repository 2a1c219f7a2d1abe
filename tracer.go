package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// tracer has the user's hooks called by the event queue. It is nil where none is set,
// and so is everything that is made for it: that is what unset hooks cost.
type tracer struct {
	Trace
	events  *notify.Queue
	calls   bool // calls must be known: a hook that tells them is set
	ballots bool // a hook of ballots is set
}

// ids names calls and ballots; in the whole process, so that one Trace can serve
// several Clients.
var ids atomic.Uint64

// newTracer has t's hooks called by q; nil if there are none.
func newTracer(t *Trace, q *notify.Queue) *tracer {
	if t == nil {
		return nil
	}
	own := &tracer{Trace: *t, events: q}
	own.ballots = t.BallotStart != nil || t.BallotVote != nil || t.BallotEnd != nil
	own.calls = own.ballots || t.CallStart != nil || t.CallEnd != nil || t.WaitStart != nil || t.WaitEnd != nil ||
		t.LeaseGranted != nil || t.LeaseReleased != nil
	rest := t.LeaseRenewed != nil || t.LeaseDanger != nil || t.LeaseLost != nil ||
		t.NodeUp != nil || t.NodeDown != nil || t.NodeStalled != nil || t.NodeQuarantined != nil
	if !own.calls && !rest {
		return nil
	}
	return own
}

// report has a hook called soon, if it is set. Rare events have room of their own.
func report[E any](q *notify.Queue, hook func(E), rare bool, event E) {
	switch {
	case hook == nil:
	case rare:
		q.Send(func() { hook(event) })
	default:
		q.SendFrequent(func() { hook(event) })
	}
}

// call is a call of the user's that is traced.
type call struct {
	tracer *tracer
	clock  system.Clock
	began  time.Duration
	start  CallStart
}

type callKey struct{}

// callOf is the call that a context of this package's own carries; nil: none.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// begin tells that a call begins, where hooks are to know. The context carries it to
// the ballots and must not get out of this package.
func (m *Mutex) begin(ctx context.Context, op string) (context.Context, *call) {
	t := m.opts.tracer
	if t == nil || !t.calls {
		return ctx, nil
	}
	c := &call{tracer: t, clock: m.opts.clock, began: m.opts.clock(), start: CallStart{
		Context: ctx, Time: time.Now(), Call: ids.Add(1), Op: op, Name: m.name,
	}}
	report(t.events, t.CallStart, false, c.start)
	return context.WithValue(ctx, callKey{}, c), c
}

// end tells that the call returns.
func (c *call) end(lease *Lease, err error) {
	if c == nil || c.tracer.CallEnd == nil {
		return
	}
	e := CallEnd{CallStart: c.start, Elapsed: c.clock() - c.began, Err: err}
	if lease != nil {
		e.Owner, e.Token = lease.Owner(), lease.Token()
	}
	report(c.tracer.events, c.tracer.CallEnd, false, e)
}

// origin is the user's context and the call, of one of this package's own.
func origin(ctx context.Context) (context.Context, uint64) {
	if c := callOf(ctx); c != nil {
		return c.start.Context, c.start.Call
	}
	return ctx, 0
}

// adopt hands a lease over to the keeper; false if that is closed. What is told of
// the lease later comes behind its grant, since it is told under h.mu or after it.
func (c *Client) adopt(ctx context.Context, h *holding) bool {
	t := c.opts.tracer
	if t == nil || t.LeaseGranted == nil {
		return c.keeper.add(h)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.keeper.add(h) {
		return false
	}
	now := h.now()
	e := LeaseGranted{Time: time.Now(), Name: h.mutex.name, Owner: h.owner, Token: h.token, Remaining: h.until - now}
	e.Context, e.Call = origin(ctx)
	if call := callOf(ctx); call != nil {
		e.Elapsed = now - call.began
	}
	report(t.events, t.LeaseGranted, false, e)
	return true
}

// concluded counts a renewal, and tells that the lease was prolonged. Called under
// h.mu.
func (h *holding) concluded(b *ballot, v quorum.Verdict) {
	counts := &h.mutex.client.counts
	if v != quorum.Granted {
		counts.unrenewed.Add(1)
		return
	}
	counts.renewed.Add(1)
	if t := h.mutex.opts.tracer; t != nil && t.LeaseRenewed != nil {
		now := h.now()
		report(t.events, t.LeaseRenewed, false, LeaseRenewed{Time: time.Now(), Name: h.mutex.name, Owner: h.owner,
			Token: h.token, Remaining: h.until - now, Elapsed: now - b.Start})
	}
}

// ends tells that a lease has ended, for the reason why. Called under h.mu.
func (h *holding) ends(ctx context.Context, why error) {
	counts, t := &h.mutex.client.counts, h.mutex.opts.tracer
	if isLost(why) {
		counts.lost.Add(1)
	} else {
		counts.released.Add(1)
	}
	switch {
	case t == nil:
	case isLost(why) && t.LeaseLost != nil:
		report(t.events, t.LeaseLost, true, LeaseLost{Time: time.Now(), Name: h.mutex.name, Owner: h.owner,
			Token: h.token, Held: h.now() - h.since, Err: why})
	case !isLost(why) && t.LeaseReleased != nil:
		e := LeaseReleased{Time: time.Now(), Name: h.mutex.name, Owner: h.owner,
			Token: h.token, Held: h.now() - h.since, Err: why}
		e.Context, e.Call = origin(ctx)
		report(t.events, t.LeaseReleased, false, e)
	}
}

// waits notes that a Lock, after it was refused, begins to wait or goes on.
func (w *waiter) waits(ctx context.Context, r *refusal) {
	w.place = r.place
	if w.waiting {
		return
	}
	w.waiting, w.began = true, w.mutex.opts.clock()
	w.mutex.client.counts.waiting.Add(1)
	t := w.mutex.opts.tracer
	if t == nil || t.WaitStart == nil && t.WaitEnd == nil {
		return
	}
	w.start = &WaitStart{Time: time.Now(), Name: w.mutex.name, Place: r.place}
	w.start.Context, w.start.Call = origin(ctx)
	report(t.events, t.WaitStart, false, *w.start)
}

// waited notes that the Lock returns, with err.
func (w *waiter) waited(err error) {
	if !w.waiting {
		return
	}
	took, counts := w.mutex.opts.clock()-w.began, &w.mutex.client.counts
	counts.waiting.Add(-1)
	counts.waits.Add(1)
	counts.waited.Add(int64(took))
	if w.start != nil {
		t := w.mutex.opts.tracer
		e := WaitEnd{WaitStart: *w.start, Waited: took, Err: err}
		e.Place = w.place
		report(t.events, t.WaitEnd, false, e)
	}
}

// The tracer observes the nodes. It is nil if there are no hooks.

// NodeUp implements node.Observer.
func (t *tracer) NodeUp(index int, name string) {
	report(t.events, t.Trace.NodeUp, true, NodeUp{Time: time.Now(), Index: index, Node: name})
}

// NodeDown implements node.Observer.
func (t *tracer) NodeDown(index int, name string, unfit bool, err error) {
	report(t.events, t.Trace.NodeDown, true, NodeDown{Time: time.Now(), Index: index, Node: name, Misfit: unfit, Err: err})
}

// NodeQuarantined implements node.Observer.
func (t *tracer) NodeQuarantined(index int, name string, wait time.Duration, err error) {
	report(t.events, t.Trace.NodeQuarantined, true, NodeQuarantined{Time: time.Now(), Index: index, Node: name, Err: err, Wait: wait})
}

// NodeStalled implements node.Observer.
func (t *tracer) NodeStalled(index int, name string, silence time.Duration) {
	report(t.events, t.Trace.NodeStalled, true, NodeStalled{Time: time.Now(), Index: index, Node: name, Silence: silence})
}
