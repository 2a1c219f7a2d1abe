package redlock

import (
	"context"
	"sync"
	"time"
)

const (
	// rest is how long a waiter that was called by one node awaits the calls of
	// the others before it tries; it doubles with every try in vain.
	rest    = 50 * time.Millisecond
	maxRest = time.Second

	// The first two in line look again after about this long, whatever happens.
	nearLook = time.Second

	// hasty is how many calls of a quorum in a row a waiter may follow in vain
	// before it hesitates, first for a moment, then for twice as long each time.
	hasty  = 3
	moment = 2 * time.Millisecond
)

// waiter is a call of Lock. It queues from its first refusal on; where the
// client has waited before, from its first ballot on.
type waiter struct {
	mutex  *Mutex
	asked  time.Duration // when Lock was called
	ticket string        // its place in all lines; "" until it queues

	// The caller's own.
	owner  string        // of the last attempt
	trip   time.Duration // that it took
	seats  nodeSet       // nodes in whose lines it may stand
	misses int           // attempts in a row that followed a call and were refused
	looked bool          // it has been told its place before
	guards bool          // it was told that it is near: whoever holds the lock may be all that lives before it
	holder string        // whom it guards; "" if that is not known yet
	place  int           // in line, as far as known
	trace  *ballotTrace  // of the last attempt

	waiting bool          // it was refused, and waits
	began   time.Duration // when it began to
	start   *WaitStart    // what a hook was told then

	wake chan struct{} // told of every change of what follows

	mu     sync.Mutex // protects what follows
	calls  nodeSet    // nodes that are known to be ready for it, since its last attempt
	called bool       // a node has called it, since its last attempt
	closer bool       // it has come near the head of the line, since its last attempt
	look   bool       // it shall look again at once
	bid    *bid       // the last attempt, which nodes may execute late; nil before the first
	holds  bool       // it has got the lease
}

// newWaiter begins a call of Lock.
func (l *line) newWaiter(ctx context.Context, m *Mutex) (*waiter, error) {
	w := &waiter{mutex: m, asked: m.opts.clock()}
	if !l.isOpen() {
		return w, nil
	}
	return w, w.enqueue(ctx)
}

// letPass lets the one go first to whom this client has just handed the lock over.
func (w *waiter) letPass(ctx context.Context) (*refusal, error) {
	m := w.mutex
	d := m.client.line.courtesy(m.key)
	if d <= 0 {
		return nil, nil
	}
	return &refusal{err: &HeldError{Name: m.name}}, m.client.pause(ctx, d)
}

// queues tells that nodes which refuse the waiter put it in their lines. Not so
// for one that is nil: who does not wait at all.
func (w *waiter) queues() bool { return w != nil && w.ticket != "" }

// enqueue gets it a ticket. Close awaits from here on that it leaves.
func (w *waiter) enqueue(ctx context.Context) error {
	c := w.mutex.client
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	c.waiting.Add(1)
	w.wake = make(chan struct{}, 1)
	w.ticket = c.line.register(w)
	return nil
}

// leave ends the call of Lock. Without the lease it leaves all lines, and undoes
// the last attempt. err is what Lock returns.
func (w *waiter) leave(err error) {
	w.waited(err)
	if !w.queues() {
		return
	}
	if !w.isHolder() {
		w.stepOut()
		w.mutex.client.line.forget(w.ticket)
	}
	w.mutex.client.waiting.Done()
}

// stepOut leaves all lines and undoes the last attempt; the ticket stays good.
func (w *waiter) stepOut() { w.leaveLines(w.seats) }

// leaveLines does it at some of the nodes.
func (w *waiter) leaveLines(at nodeSet) {
	if at == 0 {
		return
	}
	w.undoes(w.owner, at)
	m := w.mutex
	b := m.newBallot(releasing, w.owner, leaving(releaseScript.bySHA(m.keyArg, w.owner), w.ticket), m.opts.clock())
	b.ticket = w.ticket
	b.follows(w.trace)
	b.send(at, false)
	w.seats &^= at
}

// yield undoes an attempt, so that those who can go on do; it stays in the lines.
func (w *waiter) yield(owner string, at nodeSet) *ballot {
	w.undoes(owner, at)
	m := w.mutex
	b := m.newBallot(releasing, owner, releaseScript.bySHA(m.keyArg, owner, w.ticket, m.opts.label), m.opts.clock())
	b.ticket, b.waiter = w.ticket, w
	b.follows(w.trace)
	b.send(at, false)
	return b
}

// send sends an attempt, also of one that does not queue. What is heard from then on
// counts for the next attempt, but for what is said of this one's bid.
func (w *waiter) send(b *ballot) {
	if !w.queues() {
		b.send(0, true)
		return
	}
	before := w.begins(b)
	b.send(0, true)
	if before != nil {
		w.leaveLines(before.stale(b.sent()))
	}
	w.owner, w.trace = b.owner, b.trace
	w.seats |= b.sent()
}

func (w *waiter) begins(b *ballot) (before *bid) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.bid = w.bid, b.bid
	if w.closer {
		w.guards, w.holder = true, ""
	}
	w.calls, w.closer, w.look = 0, false, false
	w.misses++
	if !w.called {
		w.misses = 0
	}
	w.called = false
	return before
}

// got makes it the holder.
func (w *waiter) got() {
	if w.queues() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holds = true
	}
}

func (w *waiter) isHolder() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds
}

// retires ends what it was as a holder; what it returns leaves all lines with the
// release.
func (w *waiter) retires() (ticket string) {
	if !w.queues() {
		return ""
	}
	w.mutex.client.line.forget(w.ticket)
	return w.ticket
}

// ready notes that a node has the lock reserved for it: by a call, or by the
// answer to its yielding.
func (w *waiter) ready(node int, call bool) {
	w.mu.Lock()
	w.calls.add(node)
	w.called = w.called || call
	w.mu.Unlock()
	w.poke()
}

// isNear notes that it is the first or second in line now.
func (w *waiter) isNear() {
	w.mu.Lock()
	w.closer = true
	w.mu.Unlock()
	w.poke()
}

// lookNow has it look again at once.
func (w *waiter) lookNow() {
	w.mu.Lock()
	w.look = true
	w.mu.Unlock()
	w.poke()
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told, and will see the newest
	}
}

// wait returns when it is time for the next attempt, after one that was refused;
// or with ctx's cause or ErrClosed.
func (w *waiter) wait(ctx context.Context, r *refusal, try int) error {
	c := w.mutex.client
	w.waits(ctx, r)
	w.trip = r.trip
	switch {
	case !r.reached:
		// It must not hold up those who reach a quorum.
		if w.queues() {
			w.stepOut()
		}
		return c.pause(ctx, r.patience(c.opts.chance, try))
	case !w.queues():
		if err := c.line.turnOn(ctx); err != nil {
			return err
		}
		return w.enqueue(ctx)
	}
	return w.awaitTurn(ctx, r)
}

// awaitTurn returns when a quorum of the nodes is ready for it, a while after the
// first of them was, or when it is to look again.
func (w *waiter) awaitTurn(ctx context.Context, r *refusal) error {
	c := w.mutex.client
	clock := w.mutex.opts.clock
	due := clock() + w.patience(r)
	called, closer, complete := false, false, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := clock()
		w.mu.Lock()
		if w.called && !called {
			called = true
			due = min(due, now+min(rest<<min(w.misses, 10), maxRest))
		}
		if w.closer && !closer {
			closer = true
			due = min(due, now+jitter(w.mutex.opts.chance, nearLook, "looking"))
		}
		if w.look {
			due = now
		}
		if w.calls.len() >= c.quorum && !complete {
			complete = true
			due = min(due, now+w.hesitation())
		}
		w.mu.Unlock()
		if now >= due {
			return nil
		}
		timer.Reset(due - now)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.closing:
			return ErrClosed
		}
	}
}

// hesitation is how long it waits though a quorum is ready. Mostly that is not at
// all; but where several tries in a row were refused all the same, something is
// amiss that trying does not mend.
func (w *waiter) hesitation() time.Duration {
	if w.misses < hasty {
		return 0
	}
	return moment << min(w.misses-hasty, 6)
}

// patience is how long it waits for a call before it looks again: the first two in
// line a second, place p a little more than p seconds. That is enough for calls
// that are lost, heads that died and locks that other clients release, and a
// thousand waiters cost a node a few commands a second. scripts/line.lua reckons
// with it. Whoever is farther back and was told that it is near looks as often as the
// first two until the lock goes to another holder: all others before it may be of one
// process, and die with it.
func (w *waiter) patience(r *refusal) time.Duration {
	d := jitter(w.mutex.opts.chance, nearLook, "looking")
	if r.place > 2 {
		d = jitter(w.mutex.opts.chance, time.Duration(min(r.place, 300))*nearLook*6/5, "looking")
		if !w.looked {
			d = d * 8 / 5 // where many come at once, those who asked earlier are yet to join
		}
	}
	w.looked = true
	if w.mutex.client.line.deaf() {
		d /= 4
	}
	if w.guards = w.guards && (w.holder == "" || w.holder == r.holder); w.guards {
		w.holder = r.holder
		d = min(d, jitter(w.mutex.opts.chance, nearLook, "looking"))
	}
	if r.place <= 1 || r.place == 2 && r.kept || r.some {
		// Whoever holds it, or is called, may have died: then the keys end.
		d = min(d, r.free+time.Millisecond+w.mutex.opts.chance.below(2*time.Millisecond, "looking"))
	}
	return d
}
