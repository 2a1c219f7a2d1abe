package protocol

import (
	"slices"
	"strconv"
	"time"
)

// What calls about a lock of any kind say; then the calls about a lock of one name that one owner holds alone:
// acquire.lua, raise.lua, renew.lua, release.lua and rest.lua. The scripts are called by EVALSHA. Arguments that many
// commands share are boxed once.

// Settings are what calls about a lock say of its terms.
type Settings struct {
	TTL   any // of the lock's keys, in milliseconds
	Least any // the least count that shows a record to be whole
	Label any // the readable part of owners
	Flaps any // the same, from a client whose subscriptions break again and again
}

// NewSettings makes settings.
func NewSettings(ttl time.Duration, least int64, label string) Settings {
	return Settings{TTL: ttl.Milliseconds(), Least: strconv.FormatInt(least, 10), Label: label, Flaps: "?" + label}
}

// LockKind is one kind of lock: what stands in the commands about its keys. The methods return the arguments of EVALSHA.
// Keys, ShareKeys, SetKeys and SemaphoreKeys are kinds.
type LockKind interface {
	// Acquire asks for the lock. The server may keep the attempt of a waiter for parkFor milliseconds.
	Acquire(s *Settings, c *AttemptCall, record, parkFor any) []any

	// Raise raises a server's counts to a token, as long as the owner's attempt stands there.
	Raise(s *Settings, c RaiseCall, record any) []any

	// Renew prolongs the owner's lease.
	Renew(s *Settings, c RenewalCall, record any) []any

	// Release releases what the owner has.
	Release(s *Settings, c ReleaseCall) []any
}

// AttemptCall asks for a lock.
type AttemptCall struct {
	Owner  any
	Ticket any  // "" if the caller does not queue
	Before any  // the owner of the waiter's attempt before; "" if there is none
	Flaps  bool // the client's subscription to the server breaks again and again

	// Of permits alone: all servers try the slots in one order, which is drawn from the seed.
	Seed int64
	Asks bool // the caller has no ticket, and will ask again with one
}

// RaiseCall raises the counters of a lease's locks to its token.
type RaiseCall struct {
	Owner string
	Token int64
}

// RenewalCall prolongs a lease.
type RenewalCall struct {
	Owner any

	// Ticket is that of the waiter that got the lease, if the lock is shared or its holders are told that others want it;
	// else "".
	Ticket any
	TTL    any // from now on, in milliseconds
	List   any // of masters, by which the lease was granted: its ID; "" where admission is off
}

// ReleaseCall gives back a lease or an attempt. With a ticket, it leaves the wait queue, unless Stay is set.
type ReleaseCall struct {
	Owner  any    // a text
	Ticket string // "" if the owner does not stand in the wait queue
	Stay   bool   // the ticket keeps its position
	Flaps  bool   // as in AttemptCall

	Undo bool // it releases whatever an attempt of the owner may have got

	// PassedQueue is set without a ticket: the attempt was granted what was free for waiters,
	// so a waiter was woken before that did not come.
	PassedQueue bool
}

// label returns the label of a client that stands in the wait queue.
func (s *Settings) label(flaps bool) any {
	if flaps {
		return s.Flaps
	}
	return s.Label
}

// queue adds what the release says of the wait queue.
func (c ReleaseCall) queue(args []any, s *Settings) []any {
	switch {
	case c.Stay:
		return append(args, c.Ticket, s.label(c.Flaps))
	case c.PassedQueue:
		return append(args, "")
	case c.Ticket != "":
		return append(args, c.Ticket)
	}
	return args
}

// Milliseconds returns d as commands have it, rounded up.
func Milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Keys are those of one lock, and its counter.
type Keys struct {
	Key    any
	Queue  any // of its waiters
	Stripe any // the counter that the key is hashed to

	readers any
	asked   any // says who was asked to let the lock go; nil: holders are not told that others want it
}

// NewKeys returns the keys of a lock, and its key as text. wanted is set if holders are told that
// others want it.
func NewKeys(prefix, name string, wanted bool) (k Keys, key string) {
	queue, readers, key := KeysBeside(prefix, name)
	k = Keys{Key: key, Queue: queue, Stripe: StripeArg(key), readers: readers}
	if wanted {
		k.asked = AskedKey(key)
	}
	return k, key
}

// Acquire implements LockKind, for waiters alone.
func (k *Keys) Acquire(s *Settings, c *AttemptCall, record, parkFor any) []any {
	return []any{Acquire.SHA(), "2", k.Key, record, c.Owner, s.TTL, k.Stripe, s.Least, c.Ticket, s.label(c.Flaps), c.Before, parkFor}
}

// Raise implements LockKind.
func (k *Keys) Raise(s *Settings, c RaiseCall, record any) []any {
	return []any{Raise.SHA(), "2", k.Key, record, c.Owner, k.Stripe, strconv.FormatInt(c.Token, 10), s.Least}
}

// Renew implements LockKind.
func (k *Keys) Renew(s *Settings, c RenewalCall, record any) []any {
	if k.asked == nil {
		return []any{Renew.SHA(), "3", k.Key, record, membersKey, c.Owner, c.TTL, c.List}
	}
	return []any{Renew.SHA(), "5", k.Key, record, membersKey, k.Queue, k.asked, c.Owner, c.TTL, c.List, c.Ticket}
}

// Release implements LockKind, for whatever the owner holds, alone or as a reader.
func (k *Keys) Release(s *Settings, c ReleaseCall) []any {
	args := make([]any, 0, 8) // on the hot path: one allocation
	args = append(args, Release.SHA(), "3", k.Key, k.Queue, k.readers, c.Owner)
	return c.queue(args, s)
}

// TrimCall cuts keys of locks that last longer than any lease relies on them.
type TrimCall struct {
	Run    Run
	Record any // the key of the run's record
	Keys   []string
}

// oldestHold is a number of days: a key is cut only if its lease began no earlier. So a foreign value in an owner's
// form is taken for an owner once in ten thousand times.
const oldestHold = 30

// Eval returns the arguments of EVAL.
func (c TrimCall) Eval() []any {
	keys := []any{c.Record, c.Run.Quarantine()}
	for _, key := range c.Keys {
		keys = append(keys, key, Key("readers", key))
	}
	return eval(Trim, keys, oldestHold, LongestReservation.Milliseconds())
}

// RestAfter makes the arguments of a release of one lock into those of a release after which the
// lock rests for so long.
func RestAfter(release []any, left time.Duration) []any {
	const keys = 3
	args := slices.Insert(slices.Clone(release), 2+keys, any(Milliseconds(max(left, 0))))
	args[0] = Rest.SHA()
	return args
}
