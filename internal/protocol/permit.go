package protocol

import (
	"strconv"
	"strings"
)

// The permits of a semaphore: permit.lua and giveback.lua.

// SemaphoreKeys are those of so many permits of a semaphore. Each slot is a lock, whose key is the semaphore's with #
// and the slot's number.
type SemaphoreKeys struct {
	queue any // of its waiters
	base  string
	size  int // slots
	n     int // those that are asked for
	first int // the counter of slot 0

	// Of a lease.
	Held
	list string // its slots, with commas between
}

// NewSemaphoreKeys returns the keys of n permits of a semaphore of so many slots, and that of its queue as text.
func NewSemaphoreKeys(prefix, name string, size, n int) (k SemaphoreKeys, key string) {
	key, base := SlotKeys(prefix, name)
	k = SemaphoreKeys{queue: key, base: base, size: size, n: n}
	k.first, _ = strconv.Atoi(StripeOf(base + "0"))
	return k, key
}

// Orders is how many orders of slots there are: slots.lua computes exactly with seeds below it.
const Orders = 1 << 32

// Acquire implements LockKind. No server keeps the attempt.
func (k *SemaphoreKeys) Acquire(s *Settings, c *AttemptCall, record, _ any) []any {
	args := append(make([]any, 0, 15), Permit.SHA(), "2", k.queue, record, c.Owner, s.TTL, strconv.Itoa(k.first), s.Least,
		c.Ticket, s.label(c.Flaps), k.base, k.size, k.n, c.Seed)
	if c.Asks {
		args = append(args, "1")
	}
	return args
}

// All returns the keys of all slots.
func (k *SemaphoreKeys) All() (keys []string) {
	for slot := range k.size {
		keys = append(keys, k.base+strconv.Itoa(slot))
	}
	return keys
}

// Choose makes the keys those of a lease of the slots that a Reply lists, and returns the slots.
func (k *SemaphoreKeys) Choose(list string) (slots []int) {
	var keys []any
	var counters []string
	for slot := range strings.SplitSeq(list, ",") {
		n, _ := strconv.Atoi(slot) // ReadPermits has seen to it
		slots = append(slots, n)
		keys = append(keys, k.base+slot)
		counters = append(counters, strconv.Itoa((k.first+n)%Stripes))
	}
	k.list, k.Held = list, NewHeld(keys, counters)
	return slots
}

// Forget makes the keys those of no lease.
func (k *SemaphoreKeys) Forget() { k.list = "" }

// Release implements LockKind. An undo looks at all slots, as the server may have chosen any. It is also made while the
// slots of the lease are being chosen.
func (k *SemaphoreKeys) Release(s *Settings, c ReleaseCall) []any {
	list := ""
	if !c.Undo {
		list = k.list
	}
	args := append(make([]any, 0, 9), GiveBack.SHA(), "1", k.queue, c.Owner, k.base, k.size, list)
	return c.queue(args, s)
}
