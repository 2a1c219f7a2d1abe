package testnet

import (
	"testing"

	"github.com/redlock-go/redlock/internal/test/long"
)

// SlowWithRace skips a long test unless long tests run, and under the race detector, which
// makes it take ten times as long. Shorter tests run the same code there. make verify runs
// it.
func SlowWithRace(t *testing.T) {
	t.Helper()
	if RaceDetector || !long.Tests() {
		t.Skip("make verify runs it, without the race detector")
	}
	t.Parallel()
}

// Tries is how often a test tries what depends on chance: few times unless long tests
// run, and with the race detector, which makes each take ten times as long; many times in
// make verify.
func Tries(few, many int) int {
	if RaceDetector || !long.Tests() {
		return few
	}
	return many
}
