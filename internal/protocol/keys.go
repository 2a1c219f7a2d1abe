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

	// Shared is a lock's value while readers hold the lock.
	Shared = Reserved + "shared"

	// ReaderSuffix ends the tickets of readers that wait.
	ReaderSuffix = "r"

	// ReservationTTL is how long a reservation lasts, and the key of a parked attempt that
	// a node executed: see line.lua.
	ReservationTTL = 500 * time.Millisecond

	// QueueTTL is how long a wait queue lasts at a node, at most: see join in line.lua.
	QueueTTL = 751 * time.Second
)

// Key returns the key of a kind for a subject: a run of a server, a lock's key, or a
// client.
func Key(kind, subject string) string { return Reserved + kind + ":" + subject }

// KeysBeside returns the keys that stand beside a lock's key, and the lock's key. One string
// has all three.
func KeysBeside(prefix, name string) (queue, readers, key string) {
	const line, shares = Reserved + "line:", Reserved + "readers:"
	length := len(prefix) + len(name)
	all := line + prefix + name + shares + prefix + name
	queue, readers = all[:len(line)+length], all[len(line)+length:]
	return queue, readers, queue[len(line):]
}

// IsReservation reports whether the value of a lock's key is a reservation.
func IsReservation(value string) bool { return strings.HasPrefix(value, Reservation) }

// IsHolder reports whether the value of a lock's key names one owner, who holds the lock alone.
func IsHolder(value string) bool { return value != "" && value != Shared && !IsReservation(value) }

// stripes are the names of the counters, boxed once, as scripts take them.
var stripes = func() (all [Stripes]any) {
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

// StripeOf returns the counter of a lock's key.
func StripeOf(key string) string { return StripeArg(key).(string) }

// StripeArg returns the counter of a lock's key as the scripts take it, which is a string.
func StripeArg(key string) any {
	h := fnv.New32a()
	h.Write([]byte(key))
	return stripes[h.Sum32()%Stripes]
}
