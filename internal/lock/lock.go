package lock

import (
	"slices"
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

	settings protocol.Settings // what commands take of the terms
}

// Box makes what commands take of the terms. It must be called once, when all fields are set.
func (t *Terms) Box() {
	t.settings = protocol.NewSettings(t.Lease.TTL, t.LeastToken, t.Label)
}

// Lock is what callers lock: a name, or several at once.
type Lock struct {
	Name    string   // of several names, a text that has them all
	keys    []string // at the nodes, of each name
	engine  *Engine
	terms   *Terms
	kind    protocol.LockKind
	plain   *Exclusive       // whose callers ask without a script unless they are queued; nil if it is of another kind
	permits *Permits         // whose attempts choose slots; nil if it is of another kind
	Reader  quorum.Reader    // of the replies to attempts
	script  *protocol.Script // that releases
	shared  bool             // others may hold it at the same time
	suffix  string           // of tickets: what their waiters want
}

// PrepareAttempt fills in the votes of an attempt that are not to be skipped. An attempt is a script, unless its caller is
// not queued and wants one name for itself alone.
func (l *Lock) PrepareAttempt(a *Attempt) {
	if l.plain != nil && a.Waiter == nil {
		l.plain.preparePlainly(a)
		return
	}
	call := protocol.AttemptCall{Owner: a.Owner, Ticket: "", Before: ""}
	var flaps quorum.NodeSet
	if w := a.Waiter; w != nil {
		call.Ticket, call.Before = w.Ticket(), w.LastOwner()
		flaps = w.Flaps()
	}
	if l.permits != nil {
		l.permits.prepare(a, &call)
	}
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			call.Flaps = flaps.Has(i)
			v.Call.Args = l.kind.Acquire(&l.terms.settings, &call, v.Right.Record, a.Parked.ParkFor(i))
		}
	}
}

// Release is a release, and what it does beside what the node is told.
type Release struct {
	protocol.ReleaseCall
	Lasts time.Duration // how long a key of the owner may last; 0: the lock's ttl

	// RestsUntil is until when the lock rests, on the client's clock, if the owner has it; 0: it
	// becomes free.
	RestsUntil time.Duration
}

// Terms returns the lock's settings.
func (l *Lock) Terms() *Terms { return l.terms }

// Keys returns the lock's keys at the nodes: one for each of its names.
func (l *Lock) Keys() []string { return l.keys }

// heldKeys returns the keys that say who holds the lock.
func (l *Lock) heldKeys() []string {
	if l.permits != nil {
		return l.permits.wire.All()
	}
	return l.keys
}

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

// WaitedFor returns the lock as its waiters know it.
func (l *Lock) WaitedFor() waitqueue.Lock {
	return waitqueue.Lock{Keys: l.keys, Suffix: l.suffix, Terms: &l.terms.Wait, Undoer: l}
}

// LeaseTerms implements lease.Lock.
func (l *Lock) LeaseTerms() *lease.Terms { return &l.terms.Lease }

// begin makes b a ballot over all nodes, which begins at start.
func (l *Lock) begin(b *quorum.Ballot, op, owner string, start time.Duration, rule quorum.Rule, reader quorum.Reader) {
	l.engine.Cluster.Begin(b, quorum.Question{Op: op, Owner: owner, Start: start, Timeout: l.terms.Lease.NodeTimeout, Rule: rule, Reader: reader})
}

// The operations of ballots, as errors and hooks name them.
const (
	opLock     = "lock"
	opExtend   = "extend"
	opUnlock   = "unlock"
	opRaise    = "raise"    // for hooks
	opRollback = "rollback" // for hooks
	opSeize    = "force unlock"
	opTransfer = "transfer"
	opResume   = "resume"
	opPing     = "ping"
)
