package overview

import (
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// trend is what looks have shown of the end of a claim: whether it is put off.
//
// A holder that renews does so at each third of its ttl, so it has two thirds of it left at least, and puts the end off
// within half of the time left at any look. One look more decides nothing: a second after the first, a holder with a ttl of ten
// seconds has renewed in one case of three.
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

// next returns the trend after a look at an instant, at which the claim's end was known to within slack. Nobody renews a
// claim that rests. A foreign program seldom renews: its claim runs down until a look shows otherwise.
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
