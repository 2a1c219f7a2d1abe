package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// simRandom is the randomness of a client, or of one caller of it. Everything is
// hashed from the seed, the instant and the purpose; nothing is drawn from a generator
// that others share, so nothing depends on the order in which goroutines run.
type simRandom struct {
	seed   uint64
	client int
	place  int // of the caller, from 1 on; 0: the client itself
	now    func() time.Duration
	turn   func(who string)

	mu   sync.Mutex // protects what follows
	last time.Duration
	nth  map[string]uint64 // names for a purpose at that instant
}

// newSimRandom makes a client's randomness.
func (r *simRun) newSimRandom(client int) *simRandom {
	return &simRandom{seed: r.plan.seed, client: client, now: r.world.Now, turn: r.world.Turn}
}

// caller makes the randomness of one caller, for the settings of its mutexes. Without
// it, two callers that ask at one instant would get the same pauses, and meet again
// at the same instant for ever.
func (c *simRandom) caller(k int) *simRandom {
	return &simRandom{seed: c.seed, client: c.client, place: k + 1, now: c.now, turn: c.turn}
}

// ID returns an owner, or another name. An attempt begins with its owner, and the check of a
// node's admission with a name for a quarantine: each goroutine waits here for an instant of its
// own, so that those that one event has woken queue their commands in the same order at all nodes
// and in all runs.
func (c *simRandom) ID(purpose string) (id system.ID) {
	if purpose != "client" { // whose name is drawn before anything runs
		c.turn(fmt.Sprintf("client %d, caller %d, %s", c.client, c.place, purpose))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now != c.last || c.nth == nil {
		c.last, c.nth = now, make(map[string]uint64)
	}
	c.nth[purpose]++
	copy(id[:], inBase32(fmt.Sprintf("%016X", c.mix(c.last, purpose, c.nth[purpose])))+c.mark()+"2222222") // where owners have the clock
	return id
}

// await returns at an instant at which no other caller acts, and no message arrives.
func (c *simRandom) await() { c.turn(fmt.Sprintf("client %d, caller %d", c.client, c.place)) }

// inBase32 replaces hexadecimal digits by those of base32, which sort alike.
func inBase32(hex string) string {
	return strings.Map(func(digit rune) rune { return rune("234567ABCDEFGHIJ"[strings.IndexRune("0123456789ABCDEF", digit)]) }, hex)
}

// mark stands in the names of this client, behind what is random; in owners too, as it is ahead of the clock.
func (c *simRandom) mark() string { return inBase32(fmt.Sprintf("%03d", c.client)) }

// markOf returns the mark of the client that drew an owner; "" of a value that is none.
func markOf(owner string) string {
	const from, to = 16, 19
	if len(owner) < to {
		return ""
	}
	return owner[from:to]
}

func (c *simRandom) Below(d time.Duration, purpose string) time.Duration {
	return time.Duration(c.mix(c.now(), purpose, 0) % uint64(d))
}

func (c *simRandom) mix(at time.Duration, purpose string, nth uint64) uint64 {
	return mix(c.seed, uint64(c.client), uint64(c.place), uint64(at), nth, textHash(purpose))
}

// mix hashes numbers, such as a seed, a place and a count, to a random number.
func mix(numbers ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		h ^= n
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func textHash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// warmUp returns when the client's first connections are settled and those for wake-ups
// stand. A client with several callers needs it before they start: all that wait for
// either would be woken at one instant and race for their tickets.
func (c *simClient) warmUp(ctx context.Context) error {
	return testhook.Engine(c.client).Queue().Listen(ctx)
}
