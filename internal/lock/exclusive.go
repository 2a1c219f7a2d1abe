package lock

import (
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Exclusive is a lock that one owner holds at a time: the Primitive of a mutex, and of the
// writers of a read-write lock.
type Exclusive struct {
	keyed
	keyArgs [1]any // of commands that take the key alone
}

// Init makes the lock of a name. A copy of x goes on using x.
func (x *Exclusive) Init(e *Engine, t *Terms, prefix, name string) {
	x.init(e, t, prefix, name, x, 0)
	x.keyArgs[0] = x.keyArg
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
				a.Waiter.Ticket(), x.terms.labelArg, before, a.Parked.ParkFor(i)}
		default:
			v.Call.Args = []any{protocol.Acquire.SHA, "1", x.keyArg, owner, x.terms.ttlArg, "", x.terms.leastArg,
				a.Waiter.Ticket(), x.terms.labelArg, before, a.Parked.ParkFor(i)}
		}
	}
}

// PrepareRaise implements Primitive.
func (x *Exclusive) PrepareRaise(v *quorum.Vote, owner string, token int64) {
	x.raise(v, []any{protocol.Raise.SHA, "2", x.keyArg, v.Right.Record}, owner, token)
}

// PrepareRenewal implements Primitive.
func (x *Exclusive) PrepareRenewal(v *quorum.Vote, owner, ticket, ttl any) {
	if x.terms.Wanted {
		v.Call.Args = []any{protocol.Renew.SHA, "4", x.keyArg, v.Right.Record, x.queueArgs[0], x.askedArg,
			owner, ttl, x.terms.leastArg, ticket}
		return
	}
	v.Call.Args = []any{protocol.Renew.SHA, "2", x.keyArg, v.Right.Record, owner, ttl, x.terms.leastArg}
}
