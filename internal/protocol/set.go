package protocol

import (
	"slices"
	"strconv"
	"strings"
)

// Several locks that one owner holds all at once: acquireall.lua, raise.lua, renewall.lua and
// releaseall.lua. The permits of a lease are held so, too.

// Held are the locks of a lease: their keys, and the counters of their grants.
type Held struct {
	Keys    []any
	stripes any // with commas between
}

// NewHeld returns the locks with these keys and counters.
func NewHeld(keys []any, stripes []string) Held {
	return Held{Keys: keys, stripes: strings.Join(stripes, ",")}
}

// Raise implements LockKind.
func (h *Held) Raise(s *Settings, c RaiseCall, record any) []any {
	return h.call(Raise, []any{record}, c.Owner, h.stripes, strconv.FormatInt(c.Token, 10), s.Least)
}

// Renew returns the arguments of a RenewalCall of a holder that is not told that others want the locks.
func (h *Held) Renew(s *Settings, c RenewalCall, record any) []any {
	return h.call(RenewAll, []any{record, membersKey}, c.Owner, c.TTL, c.List)
}

// call returns the arguments of a script whose keys are the locks' and, behind them, the server's.
func (h *Held) call(script *Script, servers []any, rest ...any) []any {
	keys := len(h.Keys) + len(servers)
	args := append(make([]any, 0, keys+2+len(rest)), script.SHA(), strconv.Itoa(keys))
	return append(append(append(args, h.Keys...), servers...), rest...)
}

// SetKeys are those of several locks, in the order of the names' bytes.
type SetKeys struct {
	Held
	queues  []any
	wanted  []any // the queues, and the keys that say who was asked; nil: holders are not told that others want the locks
	release []any // all keys of a release, and ahead of them their number
}

// NewSetKeys returns the keys of the locks with these names, which are sorted, and the locks' keys
// as text. wanted is set if holders are told that others want the locks.
func NewSetKeys(prefix string, names []string, wanted bool) (k SetKeys, keys []string) {
	var stripes []string
	var locks, readers, asked []any
	for _, name := range names {
		queue, shares, key := KeysBeside(prefix, name)
		keys = append(keys, key)
		locks, k.queues = append(locks, key), append(k.queues, queue)
		readers, asked = append(readers, shares), append(asked, AskedKey(key))
		if stripe := StripeOf(key); !slices.Contains(stripes, stripe) {
			stripes = append(stripes, stripe)
		}
	}
	k.Held = NewHeld(locks, stripes)
	if wanted {
		k.wanted = slices.Concat(k.queues, asked)
	}
	k.release = slices.Concat([]any{strconv.Itoa(3 * len(names))}, locks, k.queues, readers)
	return k, keys
}

// Acquire implements LockKind.
func (k *SetKeys) Acquire(s *Settings, c *AttemptCall, record, parkFor any) []any {
	keys := 2*len(k.Keys) + 1
	args := append(make([]any, 0, keys+10), AcquireAll.SHA(), keys)
	args = append(append(args, k.Keys...), k.queues...)
	return append(args, record, c.Owner, s.TTL, k.stripes, s.Least, c.Ticket, s.label(c.Flaps), c.Before, parkFor)
}

// Renew implements LockKind.
func (k *SetKeys) Renew(s *Settings, c RenewalCall, record any) []any {
	if k.wanted == nil {
		return k.Held.Renew(s, c, record)
	}
	args := append(make([]any, 0, len(k.wanted)+len(k.Keys)+8), RenewAll.SHA(), 2+3*len(k.Keys))
	args = append(append(append(args, k.Keys...), record, membersKey), k.wanted...)
	return append(args, c.Owner, c.TTL, c.List, c.Ticket)
}

// Release implements LockKind.
func (k *SetKeys) Release(s *Settings, c ReleaseCall) []any {
	args := append(make([]any, 0, len(k.release)+4), ReleaseAll.SHA())
	return c.queue(append(append(args, k.release...), c.Owner), s)
}
