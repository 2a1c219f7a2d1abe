package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

const (
	// rest is how long a waiter that was called by one node awaits the calls of
	// the others before it tries; it doubles with every try in vain. The call may be a
	// challenge: a client that answers after the claim time counts as dead, so a waiter
	// never rests that long.
	rest    = 50 * time.Millisecond
	maxRest = claim / 4

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
	owner   string         // of the last attempt
	trip    time.Duration  // that it took
	seats   quorum.NodeSet // nodes in whose lines it may stand
	misses  int            // attempts in a row that followed a call and were refused
	looked  bool           // it has learned its place before
	place   int            // in line, as far as known
	trace   *ballotTrace   // of the last attempt
	rejoins bool           // the last attempt was made because the client was to rejoin

	waiting bool          // it was refused, and waits
	began   time.Duration // when it began to
	start   *WaitStart    // what a hook was told then

	wake chan struct{} // told of every change of what follows

	mu     sync.Mutex     // protects what follows
	calls  quorum.NodeSet // nodes that are known to be ready for it, since its last attempt
	called bool           // a node has called it, since its last attempt
	closer bool           // it has come near the head of the line, since its last attempt
	look   bool           // it shall look again at once
	rejoin time.Duration  // when it shall look again at the latest, since nodes may have dropped its ticket; 0: no such time
	bid    *bid           // the last attempt, which nodes may execute late; nil before the first
	holds  bool           // it has got the lease
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
		w.mutex.client.line.part(w)
		w.mutex.client.line.forget(w.ticket)
	}
	w.mutex.client.waiting.Done()
}

// stepOut leaves all lines and undoes the last attempt; the ticket stays good.
func (w *waiter) stepOut() { w.leaveLines(w.seats) }

// leaveLines does it at some of the nodes.
func (w *waiter) leaveLines(at quorum.NodeSet) {
	if at == 0 {
		return
	}
	w.undoes(w.owner, at)
	m := w.mutex
	b := m.newBallot(releasing, w.owner, protocol.WithTicket(protocol.Release.BySHA(m.keyArg, w.owner), w.ticket), m.opts.clock())
	b.ticket = w.ticket
	b.trace.follow(w.trace)
	b.Send(at, false)
	w.seats &^= at
}

// yield undoes an attempt, so that those who can go on do; it stays in the lines.
func (w *waiter) yield(owner string, at quorum.NodeSet) *ballot {
	w.undoes(owner, at)
	m := w.mutex
	b := m.newBallot(releasing, owner, protocol.Release.BySHA(m.keyArg, owner, w.ticket, m.opts.label), m.opts.clock())
	b.ticket, b.Watcher = w.ticket, (*yielding)(w)
	b.trace.follow(w.trace)
	b.Send(at, false)
	return b
}

// yielding watches the release of an attempt of a waiter that stays in the queues.
type yielding waiter

// Answered implements quorum.Watcher.
func (y *yielding) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	if a.Kept {
		(*waiter)(y).ready(v.Node.Index, false)
	}
	return a
}

// Decided implements quorum.Watcher.
func (y *yielding) Decided(quorum.Verdict, bool) {}

// send sends an attempt, also of one that does not queue. What is heard from then on
// counts for the next attempt, but for what is said of this one's bid.
func (w *waiter) send(b *ballot) {
	if !w.queues() {
		b.Send(0, true)
		return
	}
	before := w.begins(b)
	w.mutex.client.line.join(w)
	b.Send(0, true)
	if before != nil {
		w.leaveLines(before.stale(b.Sent()))
	}
	w.owner, w.trace = b.Owner, b.trace
	w.seats |= b.Sent()
}

func (w *waiter) begins(b *ballot) (before *bid) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.bid = w.bid, b.bid
	if before != nil {
		b.bid.before, b.bid.beforeAt = before.attempt.Owner, before.stale(0)
	}
	w.calls, w.closer, w.look = 0, false, false
	w.rejoins, w.rejoin = w.rejoin > 0, 0
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
		w.holds = true
		w.mu.Unlock()
		w.mutex.client.line.part(w)
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
	w.calls.Add(node)
	w.called = w.called || call
	w.mu.Unlock()
	w.poke()
}

// isChallenged makes it look again soon: a node called its client by the ticket of a
// waiter that has left. If that happens again and again, it looks less often, but in time
// to show that its client lives.
func (w *waiter) isChallenged() {
	w.mu.Lock()
	w.called = true
	w.mu.Unlock()
	w.poke()
}

// isNear makes it look again within about a second: it is the second in line now, or the
// foremost of its client.
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

// rejoinAt makes it look again at that instant at the latest.
func (w *waiter) rejoinAt(at time.Duration) {
	w.mu.Lock()
	w.rejoin = at
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
			c.line.part(w)
		}
		return c.pause(ctx, r.patience(w.mutex.opts.random, try))
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
	if r.joined && w.looked && !w.rejoins {
		c.line.missed(w)
	}
	due := clock() + w.patience(r)
	called, closer, complete := false, false, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := clock()
		w.mu.Lock()
		cameCloser := w.closer && !closer
		if w.called && !called {
			called = true
			due = min(due, now+min(rest<<min(w.misses, 10), maxRest))
		}
		if w.look {
			due = now
		}
		if w.calls.Len() >= c.cluster.Need && !complete {
			complete = true
			due = min(due, now+w.hesitation())
		}
		if w.rejoin > 0 {
			due = min(due, w.rejoin)
		}
		w.mu.Unlock()
		if cameCloser { // not under w.mu: the line's lock comes before it
			closer = true
			due = min(due, now+w.nearPace())
		}
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
