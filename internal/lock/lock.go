package lock

import (
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Terms are the settings of a lock. Many locks may share them.
type Terms struct {
	Lease   lease.Terms
	Wait    waitqueue.Terms
	Label   string // the readable part of owners
	Fencing bool   // leases have tokens

	// LeastToken is the least count by which a node shows that its record is whole.
	LeastToken int64

	Random system.Random

	ttlArg, leastArg any // Lease.TTL in milliseconds, and LeastToken, boxed once for all commands
}

// Box makes what commands take of the terms. It must be called once, when all fields are set.
func (t *Terms) Box() {
	t.ttlArg, t.leastArg = t.Lease.TTL.Milliseconds(), strconv.FormatInt(t.LeastToken, 10)
}

// Lock is a name that callers lock.
type Lock struct {
	Name      string
	key       string
	engine    *Engine
	terms     *Terms
	primitive Primitive
	shared    bool   // others may hold it at the same time
	suffix    string // of tickets: what their waiters want
}

// Primitive is one kind of lock. Its methods fill in the commands of votes whose Right is set.
type Primitive interface {
	// PrepareAttempt fills in the votes of an attempt that are not to be skipped.
	PrepareAttempt(a *Attempt)

	// PrepareRaise fills in a vote that raises the node's count to a token, as long as the
	// owner's attempt stands there.
	PrepareRaise(v *quorum.Vote, owner string, token int64)

	// PrepareRenewal fills in a vote that prolongs the owner's lease. owner is a string, and
	// so is ticket: that of the waiter that got the lease, if the lock is shared, or "".
	PrepareRenewal(v *quorum.Vote, owner, ticket any)

	// ReleaseArgs returns the arguments of EVALSHA for the release script.
	ReleaseArgs(r Release) []any

	// UndoArgs returns the arguments of the release script. With a ticket, it leaves the wait
	// queue.
	UndoArgs(owner, ticket string) []any

	// Readers returns what reads the replies.
	Readers() *Readers
}

// Release is what a release gives back. With a ticket, it leaves the wait queue, unless Stay is
// set.
type Release struct {
	Owner  string
	Ticket string // "" if the owner does not stand in the wait queue
	Stay   bool   // give back the attempt, and keep the ticket's position

	// PassedQueue is set without a ticket: the attempt was granted what was free for waiters,
	// so a waiter was woken before that did not come.
	PassedQueue bool
}

// Readers read the replies to a primitive's commands.
type Readers struct{ Acquire, Raise, Renew, Release quorum.Reader }

// Terms returns the lock's settings.
func (l *Lock) Terms() *Terms { return l.terms }

// Key returns the lock's key at the nodes.
func (l *Lock) Key() string { return l.key }

// Shared implements lease.Lock.
func (l *Lock) Shared() bool { return l.shared }

// TicketSuffix implements waitqueue.Lock.
func (l *Lock) TicketSuffix() string { return l.suffix }

// LeaseTerms implements lease.Lock.
func (l *Lock) LeaseTerms() *lease.Terms { return &l.terms.Lease }

// WaitTerms implements waitqueue.Lock.
func (l *Lock) WaitTerms() *waitqueue.Terms { return &l.terms.Wait }

func (l *Lock) timeout() time.Duration { return l.terms.Lease.NodeTimeout }

// begin makes b a ballot over all nodes, which begins at start.
func (l *Lock) begin(b *quorum.Ballot, op, owner string, start time.Duration, rule quorum.Rule, reader quorum.Reader) {
	l.engine.Cluster.Begin(b, quorum.Question{Op: op, Owner: owner, Start: start, Timeout: l.timeout(), Rule: rule, Reader: reader})
}

// newOwner makes the value that marks one attempt at the nodes: random, then readable. The
// random part comes first, so that owners that compete compare by it.
func (l *Lock) newOwner() string {
	id := l.terms.Random.ID("attempt")
	if l.terms.Label == "" {
		return id
	}
	return id + "@" + l.terms.Label
}

// The operations of ballots, as errors and hooks name them.
const (
	opLock     = "lock"
	opExtend   = "extend"
	opUnlock   = "unlock"
	opRaise    = "raise"    // for hooks
	opRollback = "rollback" // for hooks
	opSeize    = "force unlock"
	opPing     = "ping"
)
