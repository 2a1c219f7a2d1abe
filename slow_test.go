package redlock

import "testing"

// slowWithRace skips a long test under the race detector, to which shorter ones say the
// same. `make simulated` runs it without.
func slowWithRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("it runs without the race detector: make simulated")
	}
	t.Parallel()
}

// tries is how often a test tries what depends on chance: few times with the race
// detector, which makes each take long, and many times without it.
func tries(few, many int) int {
	if raceDetector {
		return few
	}
	return many
}
