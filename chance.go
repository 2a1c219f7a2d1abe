package redlock

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"
)

// chance is where the library's randomness comes from: names that nobody else
// has, and jitter. It is the one seam for it: simulations replace it, so that the
// same seed gives the same run.
type chance interface {
	// name is of 26 letters and digits, of at least 128 random bits. What it is for is
	// told, so that a simulation can tell two decisions of one instant apart.
	name(purpose string) string

	// below is uniformly from 0 up to, but not including, d, which is positive.
	below(d time.Duration, purpose string) time.Duration
}

// systemChance is the operating system's randomness for names, which must not
// meet even over many machines, and Go's for jitter.
type systemChance struct{}

func (systemChance) name(string) string { return rand.Text() }

func (systemChance) below(d time.Duration, _ string) time.Duration { return mathrand.N(d) }

// jitter is d, give or take a fifth.
func jitter(c chance, d time.Duration, purpose string) time.Duration {
	return d*4/5 + c.below(d*2/5+1, purpose)
}
