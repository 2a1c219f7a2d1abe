package protocol

import (
	"strconv"
	"strings"
)

// The permits of a semaphore: permit.lua and giveback.lua.

// SemaphoreKeys are those of a semaphore. Each slot is a lock, whose key is the semaphore's with #
// and the slot's number.
type SemaphoreKeys struct {
	queue any // of its waiters
	base  string
	size  int
	first int // the counter of slot 0
}

// NewSemaphoreKeys returns the keys of a semaphore of so many slots, and that of its queue as text.
func NewSemaphoreKeys(prefix, name string, size int) (k SemaphoreKeys, key string) {
	key, base := SlotKeys(prefix, name)
	k = SemaphoreKeys{queue: key, base: base, size: size}
	k.first, _ = strconv.Atoi(StripeOf(base + "0"))
	return k, key
}

// PermitCall asks for so many permits. All servers try the slots in one order, which is drawn from the seed.
type PermitCall struct {
	AttemptCall
	N    int
	Seed int64
	Asks bool // the caller has no ticket, and will ask again with one
}

// Orders is how many orders of slots there are: slots.lua computes exactly with seeds below it.
const Orders = 1 << 32

// Permits returns the arguments of an attempt, as a function of the server's record, and of whether the client's subscription
// to it flaps: the others are the same for all servers.
func (k *SemaphoreKeys) Permits(s *Settings, c *PermitCall) (at func(record any, flaps bool) []any) {
	keys, stripe := "1", ""
	if s.Tokens {
		keys, stripe = "2", strconv.Itoa(k.first)
	}
	before := []any{Permit.SHA(), keys, k.queue}
	behind := []any{c.Owner, s.TTL, stripe, s.Least, c.Ticket, s.Label, k.base, k.size, c.N, c.Seed}
	if c.Asks {
		behind = append(behind, "1")
	}
	const label = 5 // in behind
	return func(record any, flaps bool) []any {
		args := append(make([]any, 0, len(before)+1+len(behind)), before...)
		if s.Tokens {
			args = append(args, record)
		}
		args = append(args, behind...)
		args[len(args)-len(behind)+label] = s.label(flaps)
		return args
	}
}

// All returns the keys of all slots.
func (k *SemaphoreKeys) All() (keys []string) {
	for slot := range k.size {
		keys = append(keys, k.base+strconv.Itoa(slot))
	}
	return keys
}

// Slots returns the slots that a Reply lists, and what a lease of them holds.
func (k *SemaphoreKeys) Slots(list string) (slots []int, held Held) {
	var keys []any
	var counters []string
	for slot := range strings.SplitSeq(list, ",") {
		n, _ := strconv.Atoi(slot) // ReadPermits has seen to it
		slots = append(slots, n)
		keys = append(keys, k.base+slot)
		counters = append(counters, strconv.Itoa((k.first+n)%Stripes))
	}
	return slots, NewHeld(keys, counters)
}

// GiveBack returns the arguments of a ReleaseCall for the slots of a list; of all slots if it is empty.
func (k *SemaphoreKeys) GiveBack(s *Settings, c ReleaseCall, list string) []any {
	args := append(make([]any, 0, 9), GiveBack.SHA(), "1", k.queue, c.Owner, k.base, k.size, list)
	return c.queue(args, s)
}
