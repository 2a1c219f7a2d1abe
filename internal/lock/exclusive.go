package lock

import (
	"strconv"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Exclusive is a lock that one owner holds at a time: the Primitive of a mutex. Its fields are
// arguments of commands, boxed once for all of them, and only read.
type Exclusive struct {
	Lock
	keyArg    any
	stripe    any    // the counter that the key is hashed to
	keyArgs   [1]any // of commands that take the key alone
	queueArgs [1]any // the same with the key of its wait queue
}

// Init makes the lock of a name. A copy of x goes on using x.
func (x *Exclusive) Init(e *Engine, t *Terms, prefix, name string) {
	// The lock's key is the end of its queue's key: one string for both.
	queueKey := protocol.Key("line", prefix+name)
	key := queueKey[len(queueKey)-len(prefix)-len(name):]
	x.Lock = Lock{Name: name, key: key, engine: e, terms: t, primitive: x}
	x.keyArg, x.stripe = key, protocol.StripeArg(key)
	x.keyArgs[0], x.queueArgs[0] = x.keyArg, queueKey
}

// PrepareAttempt implements Primitive. A waiter's attempt is a script, which puts the waiter into
// the node's queue if it refuses it. A caller that is not queued needs no script: entering Lua
// costs the server more than the plain commands do (fastpath.go).
func (x *Exclusive) PrepareAttempt(a *Attempt) {
	if a.Waiter == nil {
		x.preparePlainly(a)
		return
	}
	var owner any = a.Owner
	var before any = a.Waiter.LastOwner()
	for i := range a.Votes {
		v := &a.Votes[i]
		switch {
		case v.Skip != nil:
		case x.terms.Fencing:
			v.Call.Args = []any{protocol.Acquire.SHA, "2", x.keyArg, v.Right.Record, owner, x.terms.ttlArg, x.stripe, x.terms.leastArg,
				a.Waiter.Ticket(), x.terms.Label, before, a.Parked.ParkFor(i)}
		default:
			v.Call.Args = []any{protocol.Acquire.SHA, protocol.OneKey, x.keyArg, owner, x.terms.ttlArg, "", x.terms.leastArg,
				a.Waiter.Ticket(), x.terms.Label, before, a.Parked.ParkFor(i)}
		}
	}
}

// PrepareRaise implements Primitive.
func (x *Exclusive) PrepareRaise(v *quorum.Vote, owner string, token int64) {
	v.Call.Args = []any{protocol.Raise.SHA, "2", x.keyArg, v.Right.Record, owner, x.stripe, strconv.FormatInt(token, 10), x.terms.leastArg}
}

// PrepareRenewal implements Primitive.
func (x *Exclusive) PrepareRenewal(v *quorum.Vote, owner any) {
	v.Call.Args = []any{protocol.Renew.SHA, "2", x.keyArg, v.Right.Record, owner, x.terms.ttlArg, x.terms.leastArg}
}

// ReleaseArgs implements Primitive.
func (x *Exclusive) ReleaseArgs(r Release) []any {
	args := protocol.Release.BySHA(x.keyArg, r.Owner)
	switch {
	case r.Stay:
		return append(args, r.Ticket, x.terms.Label)
	case r.PassedQueue:
		return append(args, "")
	}
	return protocol.WithTicket(args, r.Ticket)
}

// UndoArgs implements Primitive.
func (x *Exclusive) UndoArgs(owner, ticket string) []any {
	return protocol.WithTicket(protocol.Release.ByText(x.key, owner), ticket)
}

// Readers implements Primitive.
func (x *Exclusive) Readers() *Readers {
	if x.terms.Fencing {
		return fenced
	}
	return unfenced
}
