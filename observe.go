package redlock

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/node"
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
	leases bool   // hooks are told of events of leases
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
	h := newHooks(t)
	return &observer{clock: clock, events: events, hooks: h, leases: h != nil && h.Lease != nil}
}

// newHooks returns nil if no hook is set.
func newHooks(t *Trace) *hooks {
	if t == nil {
		return nil
	}
	h := &hooks{Trace: *t}
	h.ballots = t.BallotStart != nil || t.BallotVote != nil || t.BallotEnd != nil
	h.calls = h.ballots || t.CallStart != nil || t.CallEnd != nil || t.WaitStart != nil || t.WaitEnd != nil ||
		t.Lease != nil
	if !h.calls && t.Node == nil {
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
	start    CallEvent
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
	c := &call{observer: o, began: o.clock(), start: CallEvent{
		Context: ctx, Time: time.Now(), Call: ids.Add(1), Op: op, Name: name,
	}}
	if hook := o.hooks.CallStart; hook != nil {
		o.events.SendFrequent(func() { hook(c.start) }) // no copy: nothing changes it
	}
	return context.WithValue(ctx, callKey{}, c), c
}

// end reports that the call returns.
func (c *call) end(lease *Lease, err error) {
	if c == nil || c.observer.hooks.CallEnd == nil {
		return
	}
	e := c.start
	e.Elapsed, e.Err = c.observer.clock()-c.began, err
	if lease != nil {
		e.Owner, e.Token, e.Shared = lease.Owner(), lease.Token(), lease.Shared()
		e.Slots = lease.Slots()
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
	w := WaitEvent{Time: time.Now(), Name: name, Turn: true, Position: ahead + 1}
	w.Context, w.Call = origin(ctx)
	report(o.events, h.WaitStart, false, w)
	return func(err error) {
		e := w
		e.Waited, e.Err = o.clock()-began, err
		report(o.events, h.WaitEnd, false, e)
	}
}

// WaitBegan implements lock.Observer.
func (o *observer) WaitBegan(ctx context.Context, name string, position int) (wait any) {
	o.counts.waiting.Add(1)
	h := o.hooks
	if h == nil || h.WaitStart == nil && h.WaitEnd == nil {
		return nil
	}
	w := &WaitEvent{Time: time.Now(), Name: name, Position: position}
	w.Context, w.Call = origin(ctx)
	report(o.events, h.WaitStart, false, *w)
	return w
}

// WaitEnded implements lock.Observer.
func (o *observer) WaitEnded(name string, wait any, position int, took time.Duration, failure *lock.Failure) {
	o.counts.waiting.Add(-1)
	o.counts.waits.Add(1)
	o.counts.waited.Add(int64(took))
	if w, hooked := wait.(*WaitEvent); hooked {
		e := *w
		e.Position, e.Waited, e.Err = position, took, failureError(name, failure)
		report(o.events, o.hooks.WaitEnd, false, e)
	}
}

// lease reports an event of a lease, whose Shared is set.
func (o *observer) lease(g *lease.Grant, e LeaseEvent) {
	e.Time, e.Name, e.Owner, e.Token = time.Now(), g.Name, g.Owner, g.Token
	report(o.events, o.hooks.Lease, e.Kind == "danger" || e.Kind == "lost", e)
}

// Granted implements lease.Observer.
func (o *observer) Granted(ctx context.Context, g *lease.Grant, s lease.State) {
	if !o.leases {
		return
	}
	now := o.clock()
	e := LeaseEvent{Kind: "granted", Shared: s.Shared, Remaining: s.Until - now}
	e.Context, e.Call = origin(ctx)
	if call := callOf(ctx); call != nil {
		e.Elapsed = now - call.began
	}
	o.lease(g, e)
}

// Renewed implements lease.Observer.
func (o *observer) Renewed(g *lease.Grant, s lease.State, by *quorum.Ballot, granted bool) {
	if !granted {
		o.counts.unrenewed.Add(1)
		return
	}
	o.counts.renewed.Add(1)
	if o.leases {
		now := o.clock()
		o.lease(g, LeaseEvent{Kind: "renewed", Shared: s.Shared, Remaining: s.Until - now, Elapsed: now - by.Start})
	}
}

// Wanted implements lease.Observer.
func (o *observer) Wanted(g *lease.Grant, s lease.State) {
	if o.leases {
		o.lease(g, LeaseEvent{Kind: "wanted", Shared: s.Shared, Held: o.clock() - g.Begun})
	}
}

// Ended implements lease.Observer.
func (o *observer) Ended(ctx context.Context, g *lease.Grant, s lease.State, end *lease.End) {
	if end.IsLoss() {
		o.counts.lost.Add(1)
		if o.leases {
			o.lease(g, LeaseEvent{Kind: "lost", Shared: s.Shared, Held: o.clock() - g.Begun, Err: end.Err})
		}
		return
	}
	o.counts.released.Add(1)
	if o.leases {
		now := o.clock()
		e := LeaseEvent{Kind: "released", Shared: s.Shared, Held: now - g.Begun, Err: end.Err}
		if s.RestsUntil > 0 {
			e.Rests = s.RestsUntil - now
		}
		e.Context, e.Call = origin(ctx)
		o.lease(g, e)
	}
}

// Endangered implements lease.Observer.
func (o *observer) Endangered(g *lease.Grant, s lease.State, remaining time.Duration, failure *quorum.Failure, first bool) {
	if !first && !o.leases {
		return
	}
	err := quorumError(g.Name, failure)
	if first {
		o.events.Log(slog.LevelWarn, "a lease could not be renewed and is lost unless a later renewal succeeds",
			"name", g.Name, "owner", g.Owner, "remaining", remaining, "error", err)
	}
	if o.leases {
		o.lease(g, LeaseEvent{Kind: "danger", Shared: s.Shared, Remaining: remaining, Err: err})
	}
}

// NodeChanged implements node.Observer.
func (o *observer) NodeChanged(index int, name string, to node.Standing) {
	e := NodeEvent{Kind: NodeEventKind(to.State), Time: time.Now(), Index: index, Node: name,
		Wait: to.Wait, Silence: to.Silence, Err: to.Cause}
	if to.State == node.Unfit {
		e.Kind, e.Unfit = "down", true
	}
	report(o.events, o.hooks.Node, true, e)
}

// changed tells that the client has taken another list of masters.
func (o *observer) changed(before, now *admission.Roster) {
	if before.List == nil {
		return // it is the first one
	}
	o.events.Log(slog.LevelInfo, "the list of masters has changed", "masters", now.List.Masters)
	if o.hooks == nil {
		return
	}
	tell := func(kind NodeEventKind, has, lacks *admission.Roster) {
		for _, m := range has.Nodes {
			if has.IsMaster(m) && !lacks.IsMaster(m) {
				e := NodeEvent{Kind: kind, Time: time.Now(), Index: m.Index, Node: m.Name}
				report(o.events, o.hooks.Node, true, e)
			}
		}
	}
	tell("left", before, now)
	tell("joined", now, before)
}

// Stats is what a Client does now, and what it has done since it was made.
type Stats struct {
	Leases  int // held now
	Waiting int // calls refused that wait now
	Queued  int // calls that wait now for their turn to ask the nodes

	Acquired uint64 // attempts that got the lock
	Held     uint64 // attempts refused for another holder
	NoQuorum uint64 // attempts with too few votes

	Renewed   uint64 // leases prolonged
	Unrenewed uint64 // inconclusive renewals
	Lost      uint64 // leases that ended before their release
	Released  uint64 // leases ended by Unlock, Close or Transfer, or dropped

	Waits    uint64        // waits that are over
	WaitTime time.Duration // their sum

	Dropped uint64 // events that the logger or a hook was too slow for, or at which it panicked

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

// Stats returns a snapshot, also after Close. It asks no node.
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
	}
	_, places := c.group.InForce()
	for i, n := range c.cluster.Nodes()[:len(places)] { // others may join now
		s.Nodes = append(s.Nodes, c.statsOf(n))
		s.Nodes[i].Master = places[i]
	}
	return s
}

// Members returns the masters of the list that a majority of the nodes has; empty: there is none.
func (c *Client) Members() []string {
	list, _ := c.group.InForce()
	return strings.Fields(list.Masters)
}
