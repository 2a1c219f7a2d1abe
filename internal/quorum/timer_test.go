package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// When a quorum names another owner, the timer ends sooner, unless it does so anyway: set anew, the timers of two ballots that
// began apart could end at one instant, as the clock rounds what was spent.
func TestBallotThatIsHeldElsewhereSetsItsTimerOnlyToEndSooner(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for spent, ends := range map[time.Duration]time.Duration{
		0:                     lateVoteGrace,
		10 * time.Millisecond: 10*time.Millisecond + lateVoteGrace,
		80 * time.Millisecond: timeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBallot(3, AcquireWaiting)
			b.cluster.Clock = func() time.Duration { return spent } // the ballot began at 0
			b.mu.Lock()
			for i := range 2 {
				b.set(&b.Votes[i], Answer{Count: No, Outcome: Refused, Holder: "other"})
			}
			b.decide()
			b.mu.Unlock()
			began := time.Now()
			_, err := b.Await(t.Context(), timeout, nil)
			require.NoError(t, err)
			require.Equal(t, ends, time.Since(began), spent)
			require.ErrorContains(t, b.Votes[2].answer.Cause, "no answer within "+ends.String())
		})
	}
}
