package lock

import (
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/protocol"
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
	Wanted  bool   // holders are told that others want the lock

	// Backoff returns how long a caller pauses after its n-th try in vain, n from 1 on, and asks again; nil if callers
	// queue.
	Backoff func(try int) time.Duration

	// LeastToken is the least count by which a node shows that its record is whole.
	LeastToken int64

	Random system.Random

	ttlArg, leastArg, labelArg any // Lease.TTL in milliseconds, LeastToken and Label, boxed once for all commands
}

// Box makes what commands take of the terms. It must be called once, when all fields are set.
func (t *Terms) Box() {
	t.ttlArg, t.leastArg, t.labelArg = t.Lease.TTL.Milliseconds(), strconv.FormatInt(t.LeastToken, 10), t.Label
}

// readers returns what reads the replies to the commands of all primitives.
func (t *Terms) readers() *Readers {
	if t.Fencing {
		return fenced
	}
	return unfenced
}

// milliseconds returns d as commands have it, rounded up.
func milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Lock is what callers lock: a name, or several at once.
type Lock struct {
	Name      string   // of several names, a text that has them all
	keys      []string // at the nodes, of each name
	engine    *Engine
	terms     *Terms
	primitive Primitive
	script    *protocol.Script // that releases
	shared    bool             // others may hold it at the same time
	suffix    string           // of tickets: what their waiters want
}

// Primitive is one kind of lock. Its methods fill in the commands of votes whose Right is set.
type Primitive interface {
	// PrepareAttempt fills in the votes of an attempt that are not to be skipped.
	PrepareAttempt(a *Attempt)

	// granted is called when a quorum has granted an attempt, before any other step.
	granted(a *Attempt)

	// PrepareRaise fills in a vote that raises the node's count to a token, as long as the
	// owner's attempt stands there.
	PrepareRaise(v *quorum.Vote, owner string, token int64)

	// PrepareRenewal fills in a vote that prolongs the owner's lease. owner is a string, and
	// so is ticket: that of the waiter that got the lease, if the lock is shared or its holders are told that
	// others want it; else "". ttl is in milliseconds.
	PrepareRenewal(v *quorum.Vote, owner, ticket, ttl any)

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
	Ticket string        // "" if the owner does not stand in the wait queue
	Stay   bool          // give back the attempt, and keep the ticket's position
	Lasts  time.Duration // how long a key of the owner may last; 0: the lock's ttl

	// RestsUntil is until when the lock rests, on the client's clock, if the owner has it; 0: it
	// becomes free.
	RestsUntil time.Duration

	// PassedQueue is set without a ticket: the attempt was granted what was free for waiters,
	// so a waiter was woken before that did not come.
	PassedQueue bool
}

// addTicket adds to the arguments of a release script what it says of the wait queue. label is
// the client's.
func (r *Release) addTicket(args []any, label any) []any {
	switch {
	case r.Stay:
		return append(args, r.Ticket, label)
	case r.PassedQueue:
		return append(args, "")
	case r.Ticket != "":
		return append(args, r.Ticket)
	}
	return args
}

// Readers read the replies to a primitive's commands.
type Readers struct{ Acquire, Raise, Renew, Release quorum.Reader }

// Terms returns the lock's settings.
func (l *Lock) Terms() *Terms { return l.terms }

// Keys returns the lock's keys at the nodes: one for each of its names.
func (l *Lock) Keys() []string { return l.keys }

// Overlap reports whether two locks' keys have one in common.
func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return slices.Contains(b, key) })
}

// Cover reports whether the keys held include all that are asked for.
func Cover(held, asked []string) bool {
	return !slices.ContainsFunc(asked, func(key string) bool { return !slices.Contains(held, key) })
}

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
	return protocol.Owner(l.terms.Random.ID("attempt"), l.engine.Wall(), l.terms.Label)
}

// The operations of ballots, as errors and hooks name them.
const (
	opLock     = "lock"
	opExtend   = "extend"
	opUnlock   = "unlock"
	opRaise    = "raise"    // for hooks
	opRollback = "rollback" // for hooks
	opSeize    = "force unlock"
	opHandoff  = "transfer"
	opResume   = "resume"
	opPing     = "ping"
)
