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
type Lock struct {
	Keys []string // at the nodes: one for each name that it locks

	// Suffix ends the tickets of the lock's waiters; "" for a lock that one owner holds at a time. The nodes'
	// scripts know by it what a waiter wants.
	Suffix string

	Terms  *Terms
	Undoer Undoer
}

// Undoer makes undos for a lock.
type Undoer interface {
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
	place  time.Duration // the same, in the nodes' time as the ticket has it
	ticket string        // its place in all queues
	last   lastAttempt
	turn   turn

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
	joined   bool           // an attempt has been refused: nodes that were asked have the ticket in their queues
}

// NewWaiter makes a waiter of a call of Lock that began at the instant asked. The client's
// Close waits for its Leave. Errors: life.ErrClosed, or ctx's cause.
func (q *Queue) NewWaiter(ctx context.Context, lock Lock, asked time.Duration) (*Waiter, error) {
	if err := q.cfg.Life.Enter(ctx); err != nil {
		return nil, err
	}
	defer q.cfg.Life.Leave()
	q.cfg.Life.AddWaiter()
	w := &Waiter{queue: q, lock: lock, asked: asked, turn: newTurn(q.cfg.Clock, q.cfg.Cluster)}
	w.ticket = q.newTicket(w)
	return w, nil
}

// lateTicket is by how much a ticket may be later than the nodes' time: their clocks are known no better.
const lateTicket = time.Second

// IsPassed reports whether callers that come now get earlier tickets than the waiter's, since the nodes' clocks were
// set back. Then it leaves the queues, and another waiter takes its place, with a ticket of the same call by the new
// time. A waiter that a node has woken asks first.
func (w *Waiter) IsPassed() bool {
	q := w.queue
	passed := w.place > q.cfg.Clock()+q.serverTime()+lateTicket && !w.turn.isCalled()
	if passed {
		q.rejoinOthers(w)
	}
	return passed
}

// reads reports whether the waiter is a reader.
func reads(w *Waiter) bool { return w.lock.Suffix == protocol.ReaderSuffix }

// Ticket returns the waiter's ticket.
func (w *Waiter) Ticket() string { return w.ticket }

// Flaps returns the nodes to which the client's subscriptions break again and again.
func (w *Waiter) Flaps() quorum.NodeSet { return w.queue.Flaps() }

// LastOwner returns the owner of the waiter's last attempt; "" before the first.
func (w *Waiter) LastOwner() string { return w.last.owner }

// Nodes returns the nodes in whose queues the waiter may stand.
func (w *Waiter) Nodes() quorum.NodeSet { return w.last.queuedAt }

// Leave ends the waiter. Unless it got the lease, it has left the queues before.
func (w *Waiter) Leave() {
	if !w.Holds() {
		w.queue.forget(w.ticket)
	}
	w.queue.cfg.Life.RemoveWaiter()
}

// Stale is an attempt that the caller must undo at some of the nodes; with that the waiter leaves their queues.
type Stale struct {
	At       quorum.NodeSet // may be empty
	Owner    string
	Recorder quorum.Recorder // of the attempt
}

// LeaveQueues notes that the waiter leaves all queues, and returns the last attempt as stale: the caller's undo takes
// the ticket out of the nodes' queues. The waiter may come back with a further attempt.
func (w *Waiter) LeaveQueues() Stale {
	stale := w.leaveAt(w.last.queuedAt)
	w.queue.part(w, false)
	return stale
}

// leaveAt notes that the waiter leaves the queues at some of the nodes, where the last attempt is stale.
func (w *Waiter) leaveAt(at quorum.NodeSet) Stale {
	if at == 0 {
		return Stale{}
	}
	w.forgetExecuted(w.last.owner, at)
	w.last.queuedAt &^= at
	return Stale{at, w.last.owner, w.last.recorder}
}

// RollingBack comes before the caller rolls an attempt back at some of the nodes, where the waiter keeps its
// position. It returns what watches the rollback.
func (w *Waiter) RollingBack(owner string, at quorum.NodeSet) quorum.Watcher {
	w.forgetExecuted(owner, at)
	return (*yielding)(w)
}

// yielding watches the rollback of an attempt of a waiter that stays in the queues.
type yielding Waiter

// Answered implements quorum.Watcher.
func (y *yielding) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	if a.Kind == protocol.Kept {
		y.turn.nodeReady(v.Node.Index, false)
	}
	return a
}

// Decided implements quorum.Watcher.
func (y *yielding) Decided(quorum.Verdict, bool) {}

// Begin comes before the caller sends an attempt that Park has prepared. From then on a wake-up counts for the
// attempt after this one; only the message that a node has executed this attempt counts for this one. The attempt takes
// the previous one's place where it is sent. Elsewhere nodes may still execute that one.
func (w *Waiter) Begin(p *Parked) {
	w.mu.Lock()
	before := w.parked
	w.parked = p
	if before != nil {
		p.before = before.attempt.Owner
		sent := before.attempt.Sent()
		for i, serial := range before.serials {
			if serial != 0 && sent.Has(i) {
				p.beforeAt.Add(i)
			}
		}
	}
	w.turn.begin()
	w.mu.Unlock()
	w.queue.join(w)
}

// Sent comes after the caller has sent the attempt. It returns the previous attempt as stale, at nodes that were
// not asked again.
func (w *Waiter) Sent(p *Parked) Stale {
	b := p.attempt
	stale := w.leaveAt(p.beforeAt &^ b.Sent())
	w.last.owner, w.last.recorder = b.Owner, b.Recorder
	w.last.queuedAt |= b.Sent()
	return stale
}

// GotLease makes the waiter the holder.
func (w *Waiter) GotLease() {
	w.mu.Lock()
	w.holds = true
	w.mu.Unlock()
	w.queue.part(w, true)
}

// Holds reports whether the waiter has got the lease.
func (w *Waiter) Holds() bool {
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
