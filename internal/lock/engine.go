package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/holder"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Engine is what all locks of a client have in common.
type Engine struct {
	ID          string // names the client in tickets and at the nodes
	Clock       system.Clock
	Wall        system.Wall
	Random      system.Random
	NodeTimeout time.Duration // the client's, for calls that are not of one lock
	Life        *life.Life
	Cluster     *quorum.Cluster
	Renewer     *lease.Renewer
	Attempts    *limiter.Limiter // how many attempts are under way
	Observer    Observer

	queue     atomic.Pointer[waitqueue.Queue] // nil until the first caller waits
	board     *holder.Board                   // made with queue
	makeQueue sync.Once
	scripts   needs
	handoff   handoff
	spares    spares
}

// Observer is informed of what happens to locks. Its methods must not block.
type Observer interface {
	// Recorder returns the recorder of a ballot for op on the lock of that name. The ballot belongs to the call of ctx
	// or, if after is not nil, to that of the ballot that after records. It returns nil if
	// nobody is to know.
	Recorder(ctx context.Context, op, name, owner string, after quorum.Recorder) quorum.Recorder

	// Attempted is called after each attempt that ctx or Close has not ended. refusal is nil if
	// the attempt was granted.
	Attempted(refusal *Refusal)

	// TurnAwaited is called before a call for the lock of that name waits for its turn to ask the
	// nodes, behind so many other calls of the client. It returns the function that gets the
	// result of that wait.
	TurnAwaited(ctx context.Context, name string, ahead int) (ended func(error))

	// WaitBegan is called when a caller that was refused begins to wait, at a position in the
	// queue or at 0 if that is not known. WaitEnded gets its result when the call ends;
	// failure is nil if the caller got the lock.
	WaitBegan(ctx context.Context, name string, position int) (wait any)
	WaitEnded(name string, wait any, position int, took time.Duration, failure *Failure)

	// LimitsDiffer is called when a caller of the semaphore of that name, which says that it has so many
	// permits, finds a waiter that says another number.
	LimitsDiffer(name string, ours, theirs int)
}

// need has the nodes load the scripts of a lock with these terms, when the client's first lock of its kind is made.
func (e *Engine) need(f protocol.Families, t *Terms) {
	if t.Lease.MinHold > 0 {
		f |= protocol.ForRests
	}
	if e.scripts.has(f) {
		return
	}
	e.scripts.mu.Lock()
	defer e.scripts.mu.Unlock()
	for _, n := range e.Cluster.Nodes() {
		n.NeedScripts(f)
	}
	e.scripts.loaded.Or(uint32(f)) // last: a caller that finds it set may queue commands
}

// Join has a node that came later than the client load the scripts of its locks, and listens for wake-ups there.
func (e *Engine) Join(n *admission.Member) {
	e.scripts.mu.Lock()
	n.NeedScripts(protocol.Families(e.scripts.loaded.Load()))
	e.scripts.mu.Unlock()
	if q := e.queue.Load(); q != nil {
		q.Join(n)
	}
}

// Moved comes when the client takes another list of masters.
func (e *Engine) Moved() {
	if q := e.queue.Load(); q != nil {
		q.Moved()
	}
}

// undoAt queues an undo at each of these nodes.
func (e *Engine) undoAt(at quorum.NodeSet, undo func() *node.Undo) {
	for _, n := range e.Cluster.Nodes() {
		if at.Has(n.Index) {
			n.Undo(undo())
		}
	}
}

// needs is which scripts the locks of a client need so far.
type needs struct {
	mu     sync.Mutex    // held by the caller that has the nodes load scripts: others wait for it; ahead of nodes' locks
	loaded atomic.Uint32 // protocol.Families, beside ForMutexes; written under mu
}

func (n *needs) has(f protocol.Families) bool { return protocol.Families(n.loaded.Load())&f == f }

// openQueue returns the wait queue if the client already listens for wake-ups; else nil.
func (e *Engine) openQueue() *waitqueue.Queue {
	if q := e.queue.Load(); q != nil && q.IsOpen() {
		return q
	}
	return nil
}

// Queue returns the client's wait queue, and makes it at the first call.
func (e *Engine) Queue() *waitqueue.Queue {
	e.makeQueue.Do(func() {
		channels := node.NewChannels()
		q := waitqueue.NewQueue(waitqueue.Config{ID: e.ID, Clock: e.Clock, Random: e.Random, Life: e.Life,
			Cluster: e.Cluster, NodeTimeout: e.NodeTimeout, Channels: channels,
			News: func(n *node.Node, channel, text string) { e.board.Message(n, channel, text) }})
		e.board = holder.NewBoard(holder.Config{ID: e.ID, Clock: e.Clock, Life: e.Life, Cluster: e.Cluster, NodeTimeout: e.NodeTimeout,
			Channels: channels, Subscribe: q.Subscribe})
		e.queue.Store(q)
	})
	return e.queue.Load()
}

// Board returns the client's Board, and makes it at the first call.
func (e *Engine) Board() *holder.Board {
	e.Queue()
	return e.board
}

// handoff is the last lock that a release of this client handed off to a waiter. The waiter
// needs about as long to come as the release took: until then this client does not ask for the
// lock again, which would only delay the waiter. Nothing is lost: the ticket says when the
// caller asked.
type handoff struct {
	mu    sync.Mutex    // protects what follows
	keys  []string      // of the lock
	until time.Duration // when the waiter has come
}

// begin records that a lock was handed off at the instant now, by a release that took trip.
func (h *handoff) begin(keys []string, now, trip time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys, h.until = keys, now+trip*3/2
}

// pause returns how long a caller that wants these keys lets the waiter go first; 0 or less if it
// need not.
func (h *handoff) pause(keys []string, clock system.Clock) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.keys) == 0 || !Overlap(keys, h.keys) {
		return 0
	}
	return h.until - clock()
}

// Ping asks all nodes that may vote to do what a lock needs. It returns nil if a quorum did; else the failure says how
// each node voted, or has the cause that ended the call.
func (e *Engine) Ping(ctx context.Context) *Failure {
	if err := e.Life.Enter(ctx); err != nil {
		return &Failure{Cause: err}
	}
	defer e.Life.Leave()
	f := e.ping(ctx)
	if f != nil && f.Refusal != nil && f.Refusal.Votes.LackedScripts() {
		return e.ping(ctx) // they are loaded ahead of it
	}
	return f
}

func (e *Engine) ping(ctx context.Context) *Failure {
	b := new(quorum.Ballot)
	e.Cluster.Begin(b, quorum.Question{Op: opPing, Start: e.Clock(), Timeout: e.NodeTimeout, Rule: quorum.Survey, Reader: pinging,
		Recorder: e.Observer.Recorder(ctx, opPing, "", "", nil)})
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Call = v.Node.NewLook(v)
		v.Right, v.Skip = v.Node.Right(0)
	}
	b.Send(0, true)
	switch v, err := b.Await(ctx, e.NodeTimeout, nil); {
	case err != nil:
		return &Failure{Cause: err}
	case v != quorum.Granted:
		return &Failure{Refusal: &Refusal{Votes: quorum.FailureOf(b)}}
	}
	return nil
}
