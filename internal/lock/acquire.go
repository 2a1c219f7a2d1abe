package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// call is a call of Acquire or TryAcquire. Its attempts are in attempt.go.
type call struct {
	*Lock
	waits  bool // it is Acquire, and nodes may wake it
	asked  time.Duration
	turn   limiter.Attempt   // of the last attempt
	rested time.Duration     // when it has rested, after an attempt that too few nodes answered
	limit  time.Duration     // how long it waits for its turn to ask, at most; 0: as long as ctx allows
	waiter *waitqueue.Waiter // from its first refusal on; where the client listens, from its first attempt on

	// While it waits.
	waiting  bool
	since    time.Duration
	observed any // by the Observer
	position int // in the queue, as far as known

	alert // of the last attempt
}

// Acquire acquires the lock, and waits for it if it is held or if too few nodes answer.
func (l *Lock) Acquire(ctx context.Context) (held *lease.Lease, failure *Failure) {
	e := l.engine
	c := &call{Lock: l, waits: true, asked: e.Attempts.Asked()}
	if l.terms.Wanted {
		if err := e.Queue().Listen(ctx); err != nil {
			return nil, &Failure{Cause: err}
		}
		defer func() { c.endAlert(held) }()
	}
	if l.terms.Backoff != nil {
		return c.poll(ctx)
	}
	if q := e.openQueue(); q != nil {
		var err error
		if c.waiter, err = q.NewWaiter(ctx, l.WaitedFor(), c.asked); err != nil {
			return nil, &Failure{Cause: err}
		}
	}
	defer func() { c.end(failure) }() // from here on the waiter must leave
	var last *Refusal
	if d := e.handoff.pause(l.keys, e.Clock); d > 0 {
		last = &Refusal{Held: true}
		if err := e.Life.Pause(ctx, d); err != nil {
			return nil, &Failure{Cause: err, Refusal: last}
		}
	}
	for try := 0; ; try++ {
		held, refusal, failure := c.try(ctx, last)
		switch {
		case held != nil || failure != nil:
			return held, failure
		case refusal.hopeless:
			return nil, &Failure{Refusal: refusal}
		}
		last = refusal
		if err := c.wait(ctx, refusal, try); err != nil {
			return nil, &Failure{Cause: err, Refusal: last}
		}
	}
}

// try makes an attempt and reports it; last is the refusal before. It returns a failure if the
// attempt was ended from outside.
func (c *call) try(ctx context.Context, last *Refusal) (*lease.Lease, *Refusal, *Failure) {
	held, refusal, err := c.attempt(ctx)
	if err != nil {
		return nil, nil, &Failure{Cause: err, Refusal: cmp.Or(last, refusal)}
	}
	if refusal == nil || !refusal.unasked {
		c.engine.Observer.Attempted(refusal)
	}
	return held, refusal, nil
}

// wait returns when it is time for the next attempt, after one that was refused. Errors:
// life.ErrClosed, or ctx's cause.
func (c *call) wait(ctx context.Context, r *Refusal, try int) (err error) {
	e := c.engine
	if s := r.Standing; c.position > 0 && s.Position > c.position && !s.Joined {
		e.Queue().WatchClocks()
	}
	c.beginWait(ctx, r)
	switch {
	case !r.reached:
		if c.waiter != nil {
			c.undo(c.waiter, c.waiter.LeaveQueues()) // it would delay callers that reach a quorum
		}
		if err := c.turn.Rest(ctx, r.backoff(c.terms.Random, "trying again", try, e.Attempts.Outage())); err != nil {
			return err
		}
		if e.Attempts.Outage() > 0 {
			c.rested = e.Attempts.Asked() // others that waited meanwhile come first
		}
		return nil
	case c.waiter == nil:
		q := e.Queue()
		if err := q.Listen(ctx); err != nil {
			return err
		}
		c.waiter, err = q.NewWaiter(ctx, c.WaitedFor(), c.asked)
		return err
	}
	if err := c.waiter.AwaitTurn(ctx, r.Standing); err != nil || !c.waiter.IsPassed() {
		return err
	}
	return c.takePlace(ctx)
}

// takePlace has the call leave the queues, and take its place there again by the nodes' time.
func (c *call) takePlace(ctx context.Context) error {
	before := c.waiter
	c.undo(before, before.LeaveQueues())
	w, err := c.engine.Queue().NewWaiter(ctx, c.WaitedFor(), c.asked)
	if err == nil {
		c.waiter = w
		before.Leave()
	}
	return err
}

// beginWait reports that the call waits, once.
func (c *call) beginWait(ctx context.Context, r *Refusal) {
	c.position = r.Standing.Position
	if !c.waiting {
		c.waiting, c.since = true, c.engine.Clock()
		c.observed = c.engine.Observer.WaitBegan(ctx, c.Name, c.position)
	}
}

// end ends the call with its result.
func (c *call) end(failure *Failure) {
	if c.waiting {
		c.engine.Observer.WaitEnded(c.Name, c.observed, c.position, c.engine.Clock()-c.since, failure)
	}
	if w := c.waiter; w != nil {
		if !w.Holds() {
			c.undo(w, w.LeaveQueues())
		}
		w.Leave()
	}
}

// endAlert ends the call's alert with the call's result: that of a lease ends with its release.
func (c *call) endAlert(held *lease.Lease) {
	if held == nil {
		c.forget(c.engine)
	}
}

// maxTries is how often TryAcquire asks when the votes were split among callers that came at
// the same instant, or the nodes had to load the scripts first; and for how many node timeouts it
// asks again while nodes are being admitted.
const maxTries = 3

// TryAcquire acquires the lock without waiting for a holder.
func (l *Lock) TryAcquire(ctx context.Context) (held *lease.Lease, failure *Failure) {
	c := &call{Lock: l, limit: l.terms.Lease.NodeTimeout}
	if l.terms.Wanted {
		if err := l.engine.Queue().Listen(ctx); err != nil {
			return nil, &Failure{Cause: err}
		}
		defer func() { c.endAlert(held) }()
	}
	return c.tryAcquire(ctx, nil)
}

// tryAcquire is TryAcquire; last is the call's refusal before, nil if there is none.
func (c *call) tryAcquire(ctx context.Context, last *Refusal) (*lease.Lease, *Failure) {
	l, e := c.Lock, c.engine
	c.asked = e.Attempts.Asked()
	counted := 0 // tries for which no node was being admitted
	for try := 1; ; try++ {
		held, refusal, failure := c.try(ctx, last)
		if held != nil || failure != nil {
			return held, failure
		}
		if !refusal.registering {
			if counted++; !refusal.again || counted >= maxTries {
				return nil, &Failure{Refusal: refusal}
			}
		}
		last = refusal
		pause := refusal.backoff(l.terms.Random, "trying again", try, 0)
		if refusal.registering {
			pause = min(pause, l.terms.Lease.NodeTimeout/8) // a longer one would end the call before its time
		}
		if e.Clock()-c.asked+pause > maxTries*l.terms.Lease.NodeTimeout {
			return nil, &Failure{Refusal: refusal}
		}
		if err := e.Life.Pause(ctx, pause); err != nil {
			return nil, &Failure{Cause: err, Refusal: last}
		}
	}
}

// minBackoff is the shortest pause of a caller that asks again at a pace of its own: a pause of 0 must not
// keep the nodes, and this process, busy.
const minBackoff = time.Millisecond

// poll acquires the lock for a caller that does not queue: it tries, and tries again at a pace of
// its own. It subscribes to nothing, unless holders are told that others want the lock. Nodes with waiters refuse
// it, as they refuse a TryAcquire.
func (c *call) poll(ctx context.Context) (held *lease.Lease, failure *Failure) {
	c.waits = false // no node wakes it: it learns how long the holder has left, for its error
	defer func() { c.end(failure) }()
	var last *Refusal
	for try := 1; ; try++ {
		held, failure = c.tryAcquire(ctx, last)
		if held != nil || failure.Cause != nil || failure.Refusal.hopeless {
			return held, failure
		}
		last = failure.Refusal
		c.beginWait(ctx, last)
		pause := max(c.terms.Backoff(try), minBackoff) // where it panics, the call ends with the refusal
		if err := c.engine.Life.Pause(ctx, pause); err != nil {
			return nil, &Failure{Cause: err, Refusal: last}
		}
	}
}

// A holder may want to be told that others want the lock. Its owner at the nodes says so, and names its client:
// a node that makes a waiter wait publishes a message on the channel over which it wakes that client. Renewals
// learn the same (asked.lua). Nothing is forced.

// alert is an attempt's owner and, with Terms.Wanted, the signal by which its holder learns that others want the
// lock. A message may come before the votes have made a lease of the attempt.
type alert struct {
	owner  string        // "" before the first attempt
	signal *lease.Signal // nil if the owner is not to be told
}

// newAlert makes the owner of an attempt. It is told until forget, or until the lease of that owner is released.
func newAlert(l *Lock) alert {
	random, now := l.terms.Random.ID("attempt"), l.engine.Wall()
	if !l.terms.Wanted {
		return alert{owner: protocol.Owner(random, now, "", l.terms.Label)}
	}
	a := alert{protocol.Owner(random, now, l.engine.ID, l.terms.Label), lease.NewSignal()}
	l.engine.Board().Wanted.Expect(a.owner, a.signal.Tell)
	return a
}

// forget ends what newAlert began, for an owner that has got no lease.
func (a alert) forget(e *Engine) {
	if a.signal != nil {
		e.Board().Wanted.Forget(a.owner)
	}
}
