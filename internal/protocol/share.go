package protocol

import "strconv"

// A lock that many readers hold together: read.lua and keep.lua. raise.lua and release.lua are about readers, too.

// ShareKeys are those of a lock that readers need.
type ShareKeys struct{ Keys }

// NewShareKeys returns the keys of a lock, as NewKeys does.
func NewShareKeys(prefix, name string, wanted bool) (k ShareKeys, key string) {
	k.Keys, key = NewKeys(prefix, name, wanted)
	return k, key
}

// Acquire implements LockKind.
func (k *ShareKeys) Acquire(s *Settings, c *AttemptCall, record, parkFor any) []any {
	return []any{Read.SHA(), "4", k.Key, record, k.Queue, k.readers,
		c.Owner, s.TTL, k.Stripe, s.Least, c.Ticket, s.label(c.Flaps), c.Before, parkFor}
}

// Raise implements LockKind.
func (k *ShareKeys) Raise(s *Settings, c RaiseCall, record any) []any {
	return []any{Raise.SHA(), "3", k.Key, record, k.readers, c.Owner, k.Stripe, strconv.FormatInt(c.Token, 10), s.Least, "1"}
}

// Renew implements LockKind. The first renewal of a lease that held the lock alone makes it a share.
func (k *ShareKeys) Renew(s *Settings, c RenewalCall, record any) []any {
	if k.asked == nil {
		return []any{Keep.SHA(), "5", k.Key, record, k.Queue, k.readers, membersKey, c.Owner, c.TTL, c.List, c.Ticket}
	}
	return []any{Keep.SHA(), "6", k.Key, record, k.Queue, k.readers, membersKey, k.asked, c.Owner, c.TTL, c.List, c.Ticket, "1"}
}
