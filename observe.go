package redlock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// observer counts what the engine reports, and has the user's hooks called by the event queue.
type observer struct {
	clock  system.Clock
	events *notify.Queue
	counts counters
	hooks  *hooks // nil where no hook is set: that is what unset hooks cost
	limits limitLog
}

// mostLimitLines is of how many semaphores a client logs that callers give different numbers of permits.
const mostLimitLines = 1024

// limitLog knows for which semaphores the log says that callers give different numbers of permits.
type limitLog struct {
	mu     sync.Mutex // protects names; nothing else is locked under it
	logged map[string]bool
}

// add reports whether the name is new.
func (l *limitLog) add(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged[name] || len(l.logged) >= mostLimitLines {
		return false
	}
	if l.logged == nil {
		l.logged = make(map[string]bool)
	}
	l.logged[name] = true
	return true
}

// LimitsDiffer implements lock.Observer.
func (o *observer) LimitsDiffer(name string, ours, theirs int) {
	if o.limits.add(name) {
		o.events.Log(slog.LevelWarn, "callers give a semaphore different numbers of permits; as many as the greatest may be held", "name", printable.Cut(name), "ours", ours, "theirs", theirs)
	}
}

// hooks are the user's.
type hooks struct {
	Trace
	calls   bool // calls must be known: a hook that reports them is set
	ballots bool // a hook of ballots is set
}

// ids names calls and ballots; in the whole process, so that one Trace can serve
// several Clients.
var ids atomic.Uint64

func newObserver(t *Trace, events *notify.Queue, clock system.Clock) *observer {
	return &observer{clock: clock, events: events, hooks: newHooks(t)}
}

// newHooks returns nil if no hook is set.
func newHooks(t *Trace) *hooks {
	if t == nil {
		return nil
	}
	h := &hooks{Trace: *t}
	h.ballots = t.BallotStart != nil || t.BallotVote != nil || t.BallotEnd != nil
	h.calls = h.ballots || t.CallStart != nil || t.CallEnd != nil || t.WaitStart != nil || t.WaitEnd != nil ||
		t.LeaseGranted != nil || t.LeaseReleased != nil
	rest := t.LeaseRenewed != nil || t.LeaseWanted != nil || t.LeaseDanger != nil || t.LeaseLost != nil ||
		t.NodeUp != nil || t.NodeDown != nil || t.NodeStalled != nil || t.NodeQuarantined != nil
	if !h.calls && !rest {
		return nil
	}
	return h
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
	observer *observer
	began    time.Duration
	start    CallStart
}

type callKey struct{}

// callOf returns the call that a context of this package's own carries; nil if there is none.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// begin reports that a call begins, where hooks are to know. The context carries it to
// the ballots and must not get out of this package.
func (o *observer) begin(ctx context.Context, op, name string) (context.Context, *call) {
	if o.hooks == nil || !o.hooks.calls {
		return ctx, nil
	}
	c := &call{observer: o, began: o.clock(), start: CallStart{
		Context: ctx, Time: time.Now(), Call: ids.Add(1), Op: op, Name: name,
	}}
	report(o.events, o.hooks.CallStart, false, c.start)
	return context.WithValue(ctx, callKey{}, c), c
}

// end reports that the call returns.
func (c *call) end(lease *Lease, err error) {
	if c == nil || c.observer.hooks.CallEnd == nil {
		return
	}
	e := CallEnd{CallStart: c.start, Elapsed: c.observer.clock() - c.began, Err: err}
	if lease != nil {
		e.Owner, e.Token, e.Shared = lease.Owner(), lease.Token(), lease.Shared()
		e.Permits = lease.Permits()
	}
	report(c.observer.events, c.observer.hooks.CallEnd, false, e)
}

// origin returns the user's context and the call, of one of this package's own.
func origin(ctx context.Context) (context.Context, uint64) {
	if c := callOf(ctx); c != nil {
		return c.start.Context, c.start.Call
	}
	return ctx, 0
}

// Attempted implements lock.Observer.
func (o *observer) Attempted(refusal *lock.Refusal) {
	switch {
	case refusal == nil:
		o.counts.acquired.Add(1)
	case refusal.Held:
		o.counts.held.Add(1)
	default:
		o.counts.noQuorum.Add(1)
	}
}

// TurnAwaited implements lock.Observer.
func (o *observer) TurnAwaited(ctx context.Context, name string, ahead int) (ended func(error)) {
	h, began := o.hooks, o.clock()
	if h == nil || h.WaitStart == nil && h.WaitEnd == nil {
		return func(error) {}
	}
	w := WaitStart{Time: time.Now(), Name: name, Turn: true, Position: ahead + 1}
	w.Context, w.Call = origin(ctx)
	report(o.events, h.WaitStart, false, w)
	return func(err error) {
		report(o.events, h.WaitEnd, false, WaitEnd{WaitStart: w, Waited: o.clock() - began, Err: err})
	}
}

// WaitBegan implements lock.Observer.
func (o *observer) WaitBegan(ctx context.Context, name string, position int) (wait any) {
	o.counts.waiting.Add(1)
	h := o.hooks
	if h == nil || h.WaitStart == nil && h.WaitEnd == nil {
		return nil
	}
	w := &WaitStart{Time: time.Now(), Name: name, Position: position}
	w.Context, w.Call = origin(ctx)
	report(o.events, h.WaitStart, false, *w)
	return w
}

// WaitEnded implements lock.Observer.
func (o *observer) WaitEnded(name string, wait any, position int, took time.Duration, failure *lock.Failure) {
	o.counts.waiting.Add(-1)
	o.counts.waits.Add(1)
	o.counts.waited.Add(int64(took))
	if w, hooked := wait.(*WaitStart); hooked {
		e := WaitEnd{WaitStart: *w, Waited: took, Err: failureError(name, failure)}
		e.Position = position
		report(o.events, o.hooks.WaitEnd, false, e)
	}
}

// Granted implements lease.Observer.
func (o *observer) Granted(ctx context.Context, l *lease.Lease) {
	if o.hooks == nil || o.hooks.LeaseGranted == nil {
		return
	}
	e := LeaseGranted{Time: time.Now(), Name: l.Name, Owner: l.Owner, Token: l.Token, Shared: l.IsShared(), Remaining: l.Left()}
	e.Context, e.Call = origin(ctx)
	if call := callOf(ctx); call != nil {
		e.Elapsed = o.clock() - call.began
	}
	report(o.events, o.hooks.LeaseGranted, false, e)
}

// Renewed implements lease.Observer.
func (o *observer) Renewed(l *lease.Lease, by *quorum.Ballot, granted bool) {
	if !granted {
		o.counts.unrenewed.Add(1)
		return
	}
	o.counts.renewed.Add(1)
	if h := o.hooks; h != nil && h.LeaseRenewed != nil {
		report(o.events, h.LeaseRenewed, false, LeaseRenewed{Time: time.Now(), Name: l.Name, Owner: l.Owner,
			Token: l.Token, Shared: l.IsShared(), Remaining: l.Left(), Elapsed: o.clock() - by.Start})
	}
}

// Wanted implements lease.Observer.
func (o *observer) Wanted(l *lease.Lease) {
	if h := o.hooks; h != nil && h.LeaseWanted != nil {
		report(o.events, h.LeaseWanted, false, LeaseWanted{Time: time.Now(), Name: l.Name, Owner: l.Owner, Token: l.Token,
			Shared: l.IsShared(), Held: o.clock() - l.Begun})
	}
}

// Ended implements lease.Observer.
func (o *observer) Ended(ctx context.Context, l *lease.Lease, end *lease.End) {
	h, now := o.hooks, o.clock()
	if end.IsLoss() {
		o.counts.lost.Add(1)
		if h != nil && h.LeaseLost != nil {
			report(o.events, h.LeaseLost, true, LeaseLost{Time: time.Now(), Name: l.Name, Owner: l.Owner, Token: l.Token,
				Shared: l.IsShared(), Held: now - l.Begun, Err: end.Err})
		}
		return
	}
	o.counts.released.Add(1)
	if h != nil && h.LeaseReleased != nil {
		e := LeaseReleased{Time: time.Now(), Name: l.Name, Owner: l.Owner, Token: l.Token, Shared: l.IsShared(), Held: now - l.Begun,
			Err: end.Err}
		if until := l.RestsUntil(); until > 0 {
			e.Rests = until - now
		}
		e.Context, e.Call = origin(ctx)
		report(o.events, h.LeaseReleased, false, e)
	}
}

// Endangered implements lease.Observer.
func (o *observer) Endangered(l *lease.Lease, remaining time.Duration, failure *quorum.Failure, first bool) {
	if !first && (o.hooks == nil || o.hooks.LeaseDanger == nil) {
		return
	}
	err := quorumError(l.Name, failure)
	if first {
		o.events.Log(slog.LevelWarn, "a lease could not be renewed and is lost unless a later renewal succeeds",
			"name", l.Name, "owner", l.Owner, "remaining", remaining, "error", err)
	}
	if o.hooks != nil {
		report(o.events, o.hooks.LeaseDanger, true, LeaseDanger{Time: time.Now(), Name: l.Name, Owner: l.Owner, Token: l.Token,
			Shared: l.Shared(), Remaining: remaining, Err: err})
	}
}

// NodeUp implements node.Observer.
func (o *observer) NodeUp(index int, name string) {
	report(o.events, o.hooks.NodeUp, true, NodeUp{Time: time.Now(), Index: index, Node: name})
}

// NodeDown implements node.Observer.
func (o *observer) NodeDown(index int, name string, unfit bool, err error) {
	report(o.events, o.hooks.NodeDown, true, NodeDown{Time: time.Now(), Index: index, Node: name, Unfit: unfit, Err: err})
}

// NodeQuarantined implements node.Observer.
func (o *observer) NodeQuarantined(index int, name string, wait time.Duration, err error) {
	report(o.events, o.hooks.NodeQuarantined, true, NodeQuarantined{Time: time.Now(), Index: index, Node: name, Err: err, Wait: wait})
}

// NodeStalled implements node.Observer.
func (o *observer) NodeStalled(index int, name string, silence time.Duration) {
	report(o.events, o.hooks.NodeStalled, true, NodeStalled{Time: time.Now(), Index: index, Node: name, Silence: silence})
}

// Stats is what a Client has done since it was made, and what it does now. What is
// counted only grows, but for the fields that say now.
type Stats struct {
	Leases  int // leases held now
	Waiting int // calls of Lock that were refused and wait now
	Queued  int // calls that wait now for their turn to ask the nodes, since the client has enough attempts under way

	// Attempts: a TryLock makes one or a few, a Lock one more after each wait.
	Acquired uint64 // got the lock, Resume included
	Held     uint64 // found that another caller has it, or may have it
	NoQuorum uint64 // had too few votes, and too few answers to say that somebody else has it

	Renewed   uint64 // leases prolonged, by themselves or by Extend
	Unrenewed uint64 // renewals that were inconclusive
	Lost      uint64 // leases that ended before they were released
	Released  uint64 // leases ended by Unlock, Close or Handoff, or since they were dropped

	Waits    uint64        // calls of Lock that waited and do no more
	WaitTime time.Duration // how long they did, together

	Dropped uint64 // events that the logger and the Trace hooks were too slow for

	Nodes []NodeStats // in the order given to New or Open
}

// counters are a client's.
type counters struct {
	acquired, held, noQuorum atomic.Uint64
	renewed, unrenewed       atomic.Uint64
	lost, released           atomic.Uint64
	waits                    atomic.Uint64
	waiting, waited          atomic.Int64 // calls; nanoseconds
}

// Stats is a snapshot. It asks no node, and its parts may be a moment apart. It may
// be called at any time, also after Close.
func (c *Client) Stats() Stats {
	s := Stats{
		Leases:    c.renewer.Len(),
		Waiting:   int(c.observe.counts.waiting.Load()),
		Queued:    c.locks.Attempts.Waiting(),
		Acquired:  c.observe.counts.acquired.Load(),
		Held:      c.observe.counts.held.Load(),
		NoQuorum:  c.observe.counts.noQuorum.Load(),
		Renewed:   c.observe.counts.renewed.Load(),
		Unrenewed: c.observe.counts.unrenewed.Load(),
		Lost:      c.observe.counts.lost.Load(),
		Released:  c.observe.counts.released.Load(),
		Waits:     c.observe.counts.waits.Load(),
		WaitTime:  time.Duration(c.observe.counts.waited.Load()),
		Dropped:   c.events.Dropped(),
		Nodes:     make([]NodeStats, len(c.cluster.Nodes)),
	}
	for i, n := range c.cluster.Nodes {
		s.Nodes[i] = c.statsOf(n)
	}
	return s
}
