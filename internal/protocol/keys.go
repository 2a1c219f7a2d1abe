package protocol

import (
	"hash/fnv"
	"strconv"
	"time"
)

const (
	// Reserved is what the keys begin with that the library uses for itself.
	Reserved = "redlock::"

	// FormatKey holds the version of the format of all other keys.
	FormatKey = Reserved + "format"

	// NewestKey names the newest record of the server's memory.
	NewestKey = Reserved + "newest"

	// Stripes is how many counters a record has. A lock's key is hashed to one of them.
	// With more stripes, fewer keys count together.
	Stripes = 256

	// FirstCount is the least that the counters of a record begin with: the clock of 1987,
	// in microseconds. A counter below it began at 0, outside of a record.
	FirstCount = 1 << 49

	// LineLife is how long a wait queue lasts at a node, at most: see join in line.lua.
	LineLife = 751 * time.Second
)

// Key returns the key of a kind for a subject: a run of a server, a lock's key, or a
// client.
func Key(kind, subject string) string { return Reserved + kind + ":" + subject }

// StripeOf returns the counter of a lock's key, as the scripts take it.
func StripeOf(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return strconv.Itoa(int(h.Sum32() % Stripes))
}
