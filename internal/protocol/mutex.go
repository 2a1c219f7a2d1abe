package protocol

import (
	"slices"
	"strconv"
	"time"
)

// A lock of one name, which one owner holds alone: acquire.lua, raise.lua, renew.lua, release.lua and rest.lua.

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

// stripe returns the lock's counter; "" where leases have no tokens.
func (k *Keys) stripe(s *Settings) any {
	if !s.Tokens {
		return ""
	}
	return k.Stripe
}

// Acquire returns the arguments of an attempt of a waiter. The server may keep it for parkFor milliseconds.
func (k *Keys) Acquire(s *Settings, c *AttemptCall, record, parkFor any) []any {
	if !s.Tokens {
		return []any{Acquire.SHA, "1", k.Key, c.Owner, s.TTL, "", s.Least, c.Ticket, s.Label, c.Before, parkFor}
	}
	return []any{Acquire.SHA, "2", k.Key, record, c.Owner, s.TTL, k.Stripe, s.Least, c.Ticket, s.Label, c.Before, parkFor}
}

// Raise returns the arguments of a RaiseCall for a lease that holds the lock alone.
func (k *Keys) Raise(s *Settings, c RaiseCall, record any) []any {
	return []any{Raise.SHA, "2", k.Key, record, c.Owner, k.Stripe, strconv.FormatInt(c.Token, 10), s.Least}
}

// Renew returns the arguments of a RenewalCall for a lease that holds the lock alone.
func (k *Keys) Renew(s *Settings, c RenewalCall, record any) []any {
	if k.asked == nil {
		return []any{Renew.SHA, "2", k.Key, record, c.Owner, c.TTL, s.Least}
	}
	return []any{Renew.SHA, "4", k.Key, record, k.Queue, k.asked, c.Owner, c.TTL, s.Least, c.Ticket}
}

// Release returns the arguments of a ReleaseCall for whatever the owner holds, alone or as a reader.
func (k *Keys) Release(s *Settings, c ReleaseCall) []any {
	args := make([]any, 0, 8) // on the hot path: one allocation
	args = append(args, Release.SHA, "3", k.Key, k.Queue, k.readers, c.Owner)
	return c.queue(args, s.Label)
}

// RestAfter makes the arguments of a release of one lock into those of a release after which the
// lock rests for so long.
func RestAfter(release []any, left time.Duration) []any {
	const keys = 3
	args := slices.Insert(slices.Clone(release), 2+keys, any(Milliseconds(max(left, 0))))
	args[0] = Rest.SHA
	return args
}
