package protocol

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

const (
	// Reserved is the prefix of the keys that the library uses for itself.
	Reserved = "redlock::"

	// FormatKey holds the version of the format of all other keys.
	FormatKey = Reserved + "format"

	// MembersKey is the hash that says in which list of masters the server stands, and as which of them. It is of the
	// server, not of a run.
	MembersKey = Reserved + "members"

	// SealKey says which client is about to make the server one of a list's masters.
	SealKey = Reserved + "seal"

	// SealTTL is how long a seal lasts.
	SealTTL = 10 * time.Second

	// SettlingKey exists while a lease that was granted under an earlier list of masters may be valid.
	SettlingKey = Reserved + "settling"

	// LookKey is the key that a look at a server writes: see look.lua.
	LookKey = Reserved + "look"

	// NewestKey names the newest record of the server's memory.
	NewestKey = Reserved + "newest"

	// Stripes is how many counters a record has. A lock's key is hashed to one of them.
	// With more stripes, fewer keys share a counter.
	Stripes = 256

	// FirstCount is the least that the counters of a record begin with: the clock of 1987,
	// in microseconds. A counter below it began at 0, outside of a record.
	FirstCount = 1 << 49

	// Reservation is the prefix of a lock's value while the lock is reserved for a waiter.
	// The waiter's ticket follows.
	Reservation = Reserved + "reserved:"

	// Resting is the prefix of a lock's value while the lock rests: a lease has ended, and its
	// minimum hold has not. The lease's owner follows.
	Resting = Reserved + "resting:"

	// Nobody is the prefix of an owner that no key's value names. A release of such an owner
	// leaves the wait queues, and no key.
	Nobody = Reserved + "nobody:"

	// Shared is a lock's value while readers hold the lock.
	Shared = Reserved + "shared"

	// Permits is what refusals of a semaphore show while too few of its slots are free.
	Permits = Reserved + "permits"

	// OwnerName is how many bytes of an owner name it in refusals of a semaphore; FreeSlot stands there in
	// place of an owner. Two owners have the same name once in a million times, and a caller then takes them for one.
	OwnerName = 4
	FreeSlot  = "    "

	// ReaderSuffix ends the tickets of readers that wait.
	ReaderSuffix = "r"

	// SetSuffix ends the tickets of waiters that want several locks at once.
	SetSuffix = "+"

	// limitMark and permitsMark stand in the suffix of tickets of waiters for a semaphore, ahead of how
	// many permits it has, as the caller says, and of how many it wants.
	limitMark, permitsMark = "/", "*"

	// MaxPermits is how many permits a semaphore has at most: a node that refuses an attempt
	// looks at all of its slots, and serves nobody else meanwhile.
	MaxPermits = 256

	// SlotMark stands between a semaphore's key and a slot's number in the slot's key.
	SlotMark = "#"

	// MaxKey is how long a lock's key is at most, in bytes: its prefix and its name. Each command
	// has the key, up to three times, and a node that is away keeps it for each release.
	MaxKey = 4096

	// MaxSlotMark is how much longer the key of a semaphore's slot is than the semaphore's, at
	// most.
	MaxSlotMark = len(SlotMark + "255")

	// ReservationTTL is how long a reservation lasts, and the key of a parked attempt that
	// a node executed: see reserve.lua.
	ReservationTTL = 500 * time.Millisecond

	// LongestReservation is how long a reservation for a ticket of several locks lasts at most: see reserve.lua.
	LongestReservation = 2 * time.Second

	// QueueTTL is how long a wait queue lasts at a node after a waiter asked: see queue.lua.
	QueueTTL = 76 * time.Second

	// UnheardTTL is for how long a client that a server cannot wake counts as alive after it answered: see queue.lua.
	UnheardTTL = 5 * time.Second
)

// Key returns the key of a kind for a subject: a run of a server, a lock's key, or a
// client.
func Key(kind, subject string) string { return Reserved + kind + ":" + subject }

// AskedKey returns the key that says which holder of a lock was asked to let it go.
func AskedKey(key string) string { return Key("asked", key) }

// KeysBeside returns the keys that stand beside a lock's key, and the lock's key. One string
// has all three.
func KeysBeside(prefix, name string) (queue, readers, key string) {
	const waiters, shares = Reserved + "queue:", Reserved + "readers:"
	length := len(prefix) + len(name)
	all := waiters + prefix + name + shares + prefix + name
	queue, readers = all[:len(waiters)+length], all[len(waiters)+length:]
	return queue, readers, queue[len(waiters):]
}

// SlotKeys returns the key of a semaphore's wait queue, and those of its slots but for their numbers.
func SlotKeys(prefix, name string) (queue, slots string) {
	return Key("slots", prefix+name), prefix + name + SlotMark
}

// QueueOf returns the key of the wait queue that a wake-up names: by a lock's key, or by the queue's own.
func QueueOf(named string) string {
	if strings.HasPrefix(named, Key("slots", "")) {
		return named
	}
	return Key("queue", named)
}

// SemaphoreOf returns the semaphore of which a lock is a slot, by its name or its key; false if
// the name is not that of a slot.
func SemaphoreOf(lock string) (semaphore string, slot int, ok bool) {
	at := strings.LastIndex(lock, SlotMark)
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(lock[at+len(SlotMark):], 10, 16)
	if err != nil || n >= MaxPermits || strconv.FormatUint(n, 10) != lock[at+len(SlotMark):] {
		return "", 0, false
	}
	return lock[:at], int(n), true
}

// PermitsSuffix returns the end of the tickets of callers that want n permits of a semaphore which
// they say has so many.
func PermitsSuffix(limit, n int) string {
	return limitMark + strconv.Itoa(limit) + permitsMark + strconv.Itoa(n)
}

// PermitsOf returns how many permits the waiter with this ticket wants; 0 of another lock's.
func PermitsOf(ticket string) int {
	_, n, _ := strings.Cut(ticket, permitsMark)
	return number(n)
}

// LimitOf returns how many permits the semaphore has, as the waiter with this ticket says; 0 of
// another lock's, or if its version does not say it.
func LimitOf(ticket string) int {
	before, _, ok := strings.Cut(ticket, permitsMark)
	_, limit, _ := strings.Cut(before, limitMark)
	if !ok {
		return 0
	}
	return number(limit)
}

// number returns a number of permits that a ticket has; 0 if it is none.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n > MaxPermits {
		return 0
	}
	return int(n)
}

// specials escapes what has a meaning in the patterns of SCAN.
var specials = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// MatchKeys returns the pattern, for SCAN, of the locks' keys whose names match a pattern. The
// prefix matches itself alone.
func MatchKeys(prefix, pattern string) string { return specials.Replace(prefix) + pattern }

// IsReservation reports whether the value of a lock's key is a reservation.
func IsReservation(value string) bool { return strings.HasPrefix(value, Reservation) }

// CutResting returns the owner that the value of a lock's key names, and whether that is the owner
// of a lease after which the lock rests.
func CutResting(value string) (owner string, resting bool) { return strings.CutPrefix(value, Resting) }

// IsHolder reports whether the value of a lock's key names one owner, who holds the lock alone.
func IsHolder(value string) bool {
	return value != "" && value != Shared && value != Permits && !IsReservation(value)
}

// stripes are the names of the counters, boxed once, as scripts take them.
var stripes = func() (all [Stripes]any) {
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

// StripeOf returns the counter of a lock's key.
func StripeOf(key string) string { return StripeArg(key).(string) }

// StripeArg returns the counter of a lock's key as the scripts take it, which is a string. Those of
// a semaphore's slots follow each other, since nodes choose slots and know only the first.
func StripeArg(key string) any {
	before, slot := key, 0
	if at := strings.LastIndex(key, SlotMark) + len(SlotMark); at > 0 {
		if n, err := strconv.ParseUint(key[at:], 10, 16); err == nil {
			before, slot = key[:at], int(n)
		}
	}
	h := fnv.New32a()
	h.Write([]byte(before))
	return stripes[(int(h.Sum32()%Stripes)+slot)%Stripes]
}

const (
	maxCount   = 1 << 52 // the scripts' numbers are exact to 2^53
	countSlack = 1 << 48 // microseconds, nine years: how far ahead a clock may be from which counters began

	// earliest is when this rule was made, in 2026: no clock that shows less is right.
	earliest = 1_795_478_400 * time.Second
)

// GreatestCount returns the greatest count that a clock explains, where a server's clock shows now, the
// time since 1970. Counters begin from the servers' clocks in microseconds, and count on more slowly than these.
func GreatestCount(now time.Duration) int64 {
	return min(max(now, earliest).Microseconds()+countSlack, maxCount)
}

// GreatestBeginning returns the greatest count from which counters begin by what a client knows, where a server's
// clock shows now: half way to the greatest that is believed. So they stay below that one, though clocks are set back
// by years.
func GreatestBeginning(now time.Duration) int64 { return GreatestCount(now) - countSlack/2 }
