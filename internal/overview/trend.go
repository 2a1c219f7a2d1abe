package overview

import (
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// trend says whether looks have seen the end of a claim put off.
//
// A holder renews at each third of its ttl, so two thirds of it are left at least, and the end
// moves within half of the time left at any look. One more look decides nothing: after a second, a
// holder with a ttl of ten seconds has renewed in one case of three.
type trend struct {
	at        time.Duration // of the look that the next ones are compared with
	ends      time.Duration // as it was then
	direction Direction
}

// first returns the trend of a claim that was not seen before.
func first(at, ends time.Duration) trend {
	if ends == system.Forever {
		return trend{at: at, ends: ends, direction: Endless}
	}
	return trend{at: at, ends: ends}
}

// next returns the trend after a look that knows the claim's end to within slack. A foreign program
// seldom renews: its claim runs down until a look shows otherwise.
func (t trend) next(at, ends, slack time.Duration, foreign bool) trend {
	switch {
	case ends == system.Forever || t.ends == system.Forever:
		return first(at, ends)
	case ends > t.ends+slack:
		return trend{at: at, ends: ends, direction: Renews}
	case at-t.at > (t.ends-t.at)/2+slack, foreign && t.direction == Unknown && at > t.at:
		t.direction = RunsDown
	}
	return t
}
