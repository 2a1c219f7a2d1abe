package testnet

import "testing"

// SlowWithRace skips a long test in make test, which gives -short, and under the race
// detector, which makes it take ten times as long. Shorter tests run the same code there.
// make verify runs it.
func SlowWithRace(t *testing.T) {
	t.Helper()
	if RaceDetector || testing.Short() {
		t.Skip("make verify runs it, without the race detector")
	}
	t.Parallel()
}

// Tries is how often a test tries what depends on chance: few times in make test, which
// gives -short, and with the race detector, which makes each take ten times as long;
// many times in make verify.
func Tries(few, many int) int {
	if RaceDetector || testing.Short() {
		return few
	}
	return many
}
