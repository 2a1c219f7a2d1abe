package system

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"
)

// Random draws unique ids and durations. The purpose of a draw lets a simulation
// distinguish two draws of one instant; it does not change their distribution.
type Random interface {
	// ID returns random letters and digits.
	ID(purpose string) ID

	// Below returns a duration that is uniformly distributed from 0 up to, but not
	// including, d, which must be positive.
	Below(d time.Duration, purpose string) time.Duration
}

// ID is 26 of the letters and digits of base32, with five random bits each.
type ID [26]byte

// String returns the ID as text.
func (id ID) String() string { return string(id[:]) }

// Digits are those of base32, as IDs have them.
const Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// OSRandom is the Random of programs: the operating system's randomness for ids, which
// must be unique over many machines, and Go's for durations.
type OSRandom struct{}

// ID implements Random. It is rand.Text, without a text that would be allocated.
func (OSRandom) ID(string) (id ID) {
	_, _ = rand.Read(id[:]) // it never fails
	for i, b := range id {
		id[i] = Digits[b%32]
	}
	return id
}

// Below implements Random.
func (OSRandom) Below(d time.Duration, _ string) time.Duration { return mathrand.N(d) }

// Jitter returns d, plus or minus a random amount of at most a fifth.
func Jitter(r Random, d time.Duration, purpose string) time.Duration {
	return d*4/5 + r.Below(d*2/5+1, purpose)
}
