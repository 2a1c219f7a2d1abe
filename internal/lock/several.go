package lock

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Several is a lock of several names, which one owner holds all at once: the Primitive of
// Client.Multi. Its keys are those of the Exclusive locks of the names, and a node grants all of
// them or none. Its fields are arguments of commands, boxed once for all of them, and only read.
type Several struct {
	Lock
	names       []string
	keyArgs     []any // the locks' keys, in the order of their bytes
	queueArgs   []any // their wait queues, in the same order
	releaseKeys []any // all keys of the release script, and ahead of them their number
	wantedKeys  []any // the wait queues, and the keys that say who was asked; only if holders are told that others want the locks
	stripes     any   // the counters that the keys are hashed to, with commas between
}

// Init makes the lock of several different names, which Lock.Name lists in order. A copy of s goes
// on using s.
func (s *Several) Init(e *Engine, t *Terms, prefix string, names []string) {
	e.need(protocol.ForSeveral, t)
	names = slices.Sorted(slices.Values(names))
	s.Lock = Lock{Name: strings.Join(names, ", "), engine: e, terms: t, primitive: s, script: protocol.ReleaseAll,
		suffix: protocol.SetSuffix}
	s.names = names
	var stripes []string
	var readers []any
	for _, name := range names {
		queue, shares, key := protocol.KeysBeside(prefix, name)
		s.keys = append(s.keys, key)
		s.keyArgs, s.queueArgs, readers = append(s.keyArgs, key), append(s.queueArgs, queue), append(readers, shares)
		if stripe := protocol.StripeOf(key); !slices.Contains(stripes, stripe) {
			stripes = append(stripes, stripe)
		}
	}
	s.stripes = ""
	if t.Fencing {
		s.stripes = strings.Join(stripes, ",")
	}
	if t.Wanted {
		s.wantedKeys = slices.Clone(s.queueArgs)
		for _, key := range s.keys {
			s.wantedKeys = append(s.wantedKeys, protocol.AskedKey(key))
		}
	}
	s.releaseKeys = slices.Concat([]any{strconv.Itoa(3 * len(names))}, s.keyArgs, s.queueArgs, readers)
}

// Names returns the names, in the order of their bytes.
func (s *Several) Names() []string { return s.names }

// PrepareAttempt implements Primitive. Every attempt is a script.
func (s *Several) PrepareAttempt(a *Attempt) {
	var owner, ticket, before any = a.Owner, "", ""
	if a.Waiter != nil {
		ticket, before = a.Waiter.Ticket(), a.Waiter.LastOwner()
	}
	keys := 2 * len(s.keyArgs)
	if s.terms.Fencing {
		keys++
	}
	for i := range a.Votes {
		v := &a.Votes[i]
		if v.Skip != nil {
			continue
		}
		args := append(make([]any, 0, keys+10), protocol.AcquireAll.SHA, keys)
		args = append(append(args, s.keyArgs...), s.queueArgs...)
		if s.terms.Fencing {
			args = append(args, v.Right.Record)
		}
		v.Call.Args = append(args, owner, s.terms.ttlArg, s.stripes, s.terms.leastArg, ticket, s.terms.labelArg, before, a.Parked.ParkFor(i))
	}
}

// PrepareRaise implements Primitive.
func (s *Several) PrepareRaise(v *quorum.Vote, owner string, token int64) {
	v.Call.Args = withRecord(s.keyArgs, v, protocol.RaiseAll, owner, s.stripes, strconv.FormatInt(token, 10), s.terms.leastArg)
}

// PrepareRenewal implements Primitive.
func (s *Several) PrepareRenewal(v *quorum.Vote, owner, ticket, ttl any) {
	if s.terms.Wanted {
		args := append(make([]any, 0, len(s.wantedKeys)+len(s.keyArgs)+7), protocol.RenewAll.SHA, 1+3*len(s.keys))
		args = append(append(append(args, s.keyArgs...), v.Right.Record), s.wantedKeys...)
		v.Call.Args = append(args, owner, ttl, s.terms.leastArg, ticket)
		return
	}
	v.Call.Args = withRecord(s.keyArgs, v, protocol.RenewAll, owner, ttl, s.terms.leastArg)
}

// withRecord returns the arguments of a script whose keys are the locks' and the node's record.
func withRecord(keys []any, v *quorum.Vote, script *protocol.Script, rest ...any) []any {
	args := append(make([]any, 0, len(keys)+8), script.SHA, strconv.Itoa(len(keys)+1))
	args = append(append(args, keys...), v.Right.Record)
	return append(args, rest...)
}

// ReleaseArgs implements Primitive.
func (s *Several) ReleaseArgs(r Release) []any {
	args := append(make([]any, 0, len(s.releaseKeys)+4), protocol.ReleaseAll.SHA)
	return r.addTicket(append(append(args, s.releaseKeys...), r.Owner), s.terms.labelArg)
}

// UndoArgs implements Primitive.
func (s *Several) UndoArgs(owner, ticket string) []any {
	args := append(slices.Clone(s.releaseKeys), owner)
	if ticket != "" {
		args = append(args, ticket)
	}
	return args
}

// Readers implements Primitive.
func (s *Several) Readers() *Readers { return s.terms.readers() }

// granted implements Primitive.
func (s *Several) granted(*Attempt) {}
