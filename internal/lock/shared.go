package lock

import (
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Shared is a lock that many owners hold together: the Primitive of the readers of a
// read-write lock. It has the key of the Exclusive lock of that name, and excludes it.
type Shared struct {
	keyed
	challengedArg any // the key that says which writer's client was challenged
}

// Init makes the lock of a name. A copy of s goes on using s.
func (s *Shared) Init(e *Engine, t *Terms, prefix, name string) {
	s.init(e, t, prefix, name, s, protocol.ForReaders)
	s.shared, s.suffix = true, protocol.ReaderSuffix
	s.challengedArg = protocol.ChallengedKey(s.keys[0])
}

// PrepareAttempt implements Primitive. Every attempt is a script: a share is an entry in a set
// that the lock's key must outlast.
func (s *Shared) PrepareAttempt(a *Attempt) {
	var owner, ticket, before, stripe any = a.Owner, "", "", s.stripe
	if a.Waiter != nil {
		ticket, before = a.Waiter.Ticket(), a.Waiter.LastOwner()
	}
	if !s.terms.Fencing {
		stripe = ""
	}
	for i := range a.Votes {
		v := &a.Votes[i]
		if v.Skip != nil {
			continue
		}
		v.Call.Args = []any{protocol.Read.SHA, "5", s.keyArg, v.Right.Record, s.queueArgs[0], s.readersArg, s.challengedArg,
			owner, s.terms.ttlArg, stripe, s.terms.leastArg, ticket, s.terms.labelArg, before, a.Parked.ParkFor(i)}
	}
}

// PrepareRaise implements Primitive.
func (s *Shared) PrepareRaise(v *quorum.Vote, owner string, token int64) {
	s.raise(v, []any{protocol.Advance.SHA, "3", s.keyArg, v.Right.Record, s.readersArg}, owner, token)
}

// PrepareRenewal implements Primitive. The first renewal of a lease that held the lock alone
// makes it a share.
func (s *Shared) PrepareRenewal(v *quorum.Vote, owner, ticket, ttl any) {
	if s.terms.Wanted {
		v.Call.Args = []any{protocol.Keep.SHA, "5", s.keyArg, v.Right.Record, s.queueArgs[0], s.readersArg, s.askedArg,
			owner, ttl, s.terms.leastArg, ticket, "1"}
		return
	}
	v.Call.Args = []any{protocol.Keep.SHA, "4", s.keyArg, v.Right.Record, s.queueArgs[0], s.readersArg,
		owner, ttl, s.terms.leastArg, ticket}
}
