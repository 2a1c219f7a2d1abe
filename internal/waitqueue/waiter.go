package waitqueue

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Lock is the lock that a waiter waits for.
type Lock interface {
	// Keys returns the lock's keys at the nodes: one for each name that it locks.
	Keys() []string

	// TicketSuffix ends the tickets of the lock's waiters; "" for a lock that one owner holds
	// at a time. The nodes' scripts know by it what a waiter wants.
	TicketSuffix() string

	// WaitTerms returns the settings of the lock's waiters.
	WaitTerms() *Terms

	// BeginRollback returns a ballot that undoes an attempt, and is not queued yet. It
	// follows the attempt with the recorder after. The waiter keeps its position in the
	// queues if stay is set; else it leaves them.
	BeginRollback(owner, ticket string, stay bool, after quorum.Recorder) *quorum.Ballot

	// NewUndo returns an undo of an attempt, with which the waiter leaves the queue.
	NewUndo(owner, ticket string) *node.Undo
}

// Terms are the settings of a lock's waiters.
type Terms struct {
	TTL     time.Duration // of the lock's keys
	Parking bool          // refused attempts are parked at the nodes

	// ExecutedValidity is the validity of a lease that came of a parked attempt, from the
	// attempt's start.
	ExecutedValidity time.Duration

	Random system.Random
}

// Waiter is a caller of Lock that stands in the wait queues, or is about to, or has got the lock.
type Waiter struct {
	queue  *Queue
	lock   Lock
	asked  time.Duration // when Lock was called
	ticket string        // its place in all queues
	last   lastAttempt
	poll   poller
	bell   bell

	mu     sync.Mutex // protects what follows
	parked *Parked    // the last attempt, which nodes may execute late; nil before the first
	holds  bool       // it has got the lease
}

// lastAttempt is what a waiter knows of its last attempt. Only its own goroutine uses it.
type lastAttempt struct {
	owner    string
	recorder quorum.Recorder
	took     time.Duration
	queuedAt quorum.NodeSet // nodes in whose queues the waiter may stand
	misses   int            // attempts in a row that followed a wake-up, or a rollback that left the lock reserved, and were refused
	vain     int            // attempts in a row that followed the wake-ups of a quorum, and were refused
	rejoined bool           // it was made because the client was to rejoin
}

// NewWaiter makes a waiter of a call of Lock that began at the instant asked. The client's
// Close waits for its Leave. Errors: life.ErrClosed, or ctx's cause.
func (q *Queue) NewWaiter(ctx context.Context, lock Lock, asked time.Duration) (*Waiter, error) {
	if err := q.cfg.Life.Enter(ctx); err != nil {
		return nil, err
	}
	defer q.cfg.Life.Leave()
	q.cfg.Life.AddWaiter()
	w := &Waiter{queue: q, lock: lock, asked: asked, poll: poller{queue: q, terms: lock.WaitTerms()}, bell: bell{wake: make(chan struct{}, 1)}}
	w.ticket = q.newTicket(w)
	return w, nil
}

// reads reports whether the waiter is a reader.
func reads(w *Waiter) bool { return w.lock.TicketSuffix() == protocol.ReaderSuffix }

// Ticket returns the waiter's ticket.
func (w *Waiter) Ticket() string { return w.ticket }

// LastOwner returns the owner of the waiter's last attempt; "" before the first.
func (w *Waiter) LastOwner() string { return w.last.owner }

// Nodes returns the nodes in whose queues the waiter may stand.
func (w *Waiter) Nodes() quorum.NodeSet { return w.last.queuedAt }

// Leave ends the waiter. If it did not get the lease, it leaves all queues, and undoes the
// last attempt.
func (w *Waiter) Leave() {
	if !w.isHolder() {
		w.LeaveQueues()
		w.queue.forget(w.ticket)
	}
	w.queue.cfg.Life.RemoveWaiter()
}

// LeaveQueues leaves all queues and undoes the last attempt. The ticket stays good: the waiter may
// come back with a further attempt.
func (w *Waiter) LeaveQueues() {
	w.leaveAt(w.last.queuedAt)
	w.queue.part(w, false)
}

// leaveAt leaves the queues at some of the nodes, and undoes the last attempt there.
func (w *Waiter) leaveAt(at quorum.NodeSet) {
	if at == 0 {
		return
	}
	w.forgetExecuted(w.last.owner, at)
	w.lock.BeginRollback(w.last.owner, w.ticket, false, w.last.recorder).Send(at, false)
	w.last.queuedAt &^= at
}

// Rollback undoes an attempt at some of the nodes, so that waiters that can go on do. The
// waiter keeps its position in the queues.
func (w *Waiter) Rollback(owner string, at quorum.NodeSet) *quorum.Ballot {
	w.forgetExecuted(owner, at)
	b := w.lock.BeginRollback(owner, w.ticket, true, w.last.recorder)
	b.Watcher = (*yielding)(w)
	b.Send(at, false)
	return b
}

// yielding watches the rollback of an attempt of a waiter that stays in the queues.
type yielding Waiter

// Answered implements quorum.Watcher.
func (y *yielding) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	if a.Kind == protocol.Kept {
		y.bell.ready(v.Node.Index, false)
	}
	return a
}

// Decided implements quorum.Watcher.
func (y *yielding) Decided(quorum.Verdict, bool) {}

// Send sends an attempt that Park has parked. What nodes send from then on counts for the
// next attempt, but for the execution of this one.
func (w *Waiter) Send(p *Parked) {
	before := w.begin(p)
	w.queue.join(w)
	b := p.attempt
	b.Send(0, true)
	if before != nil {
		w.leaveAt(before.staleAt(b.Sent()))
	}
	w.last.owner, w.last.recorder = b.Owner, b.Recorder
	w.last.queuedAt |= b.Sent()
}

// begin forgets what belonged to the attempt before, and returns that attempt.
func (w *Waiter) begin(p *Parked) (before *Parked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.parked = w.parked, p
	if before != nil {
		p.before, p.beforeAt = before.attempt.Owner, before.staleAt(0)
	}
	signals := w.bell.reset()
	w.last.rejoined = signals.rejoinBy > 0
	w.last.misses++
	if !signals.woken && signals.nodes == 0 {
		w.last.misses = 0
	}
	w.last.vain++
	if signals.nodes.Len() < w.queue.cfg.Cluster.Need {
		w.last.vain = 0
	}
	return before
}

// GotLease makes the waiter the holder.
func (w *Waiter) GotLease() {
	w.mu.Lock()
	w.holds = true
	w.mu.Unlock()
	w.queue.part(w, true)
}

func (w *Waiter) isHolder() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds
}

// Retire ends the ticket of a waiter that became the holder, and returns it: the lease's
// release leaves all queues with it.
func (w *Waiter) Retire() (ticket string) {
	w.queue.forget(w.ticket)
	return w.ticket
}
