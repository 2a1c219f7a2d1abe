package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
)

// NeverUnfit says that a majority can vote.
func NeverUnfit() bool { return false }

// anyone is a caller.
type anyone struct{}

func (anyone) TurnAwaited(context.Context, int) func(error) { return func(error) {} }
func (anyone) IsUrgent() bool                               { return false }
func (anyone) Changed() <-chan struct{}                     { return nil }

// Of two callers that one event wakes, one in each lane, either may begin first. Neither learns that from what the
// Limiter decides.
func TestLanesAreMeasuredAlikeInEitherOrder(t *testing.T) {
	for under := range 40 { // attempts that are under way: up to more than half of the first limit
		var timed [2]map[bool]bool
		for i, urgentFirst := range []bool{false, true} {
			l := New(func() time.Duration { return 0 }, life.New(), NeverUnfit)
			a, _ := l.TryEnter(false)
			a.Leave(Result{Timeout: time.Second, Answered: time.Millisecond, Took: time.Millisecond})
			for range under {
				l.TryEnter(false)
			}
			timed[i] = make(map[bool]bool)
			for _, urgent := range []bool{urgentFirst, !urgentFirst} {
				a, begun := l.TryEnter(urgent)
				require.True(t, begun)
				timed[i][urgent] = a.Timed
			}
		}
		require.Equal(t, timed[0], timed[1], "with %d under way", under)
	}
}

// A caller's context ends at the instant at which its turn comes. It goes on, or another caller gets its turn.
func TestTurnThatComesWithTheEndOfItsCallerIsNotLost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(func() time.Duration { return 0 }, life.New(), NeverUnfit)
	left := 0 // without their turn
	for range 100 {
		w := &turn{in: &l.ordinary.waiting, index: -1, granted: make(chan Attempt, 1)}
		l.mu.Lock()
		w.granted <- l.begin(&l.ordinary)
		l.mu.Unlock()
		a, err := l.await(ctx, w, time.Hour, anyone{})
		if err == nil {
			a.Leave(Result{})
		} else {
			left++
		}
		require.Zero(t, l.ordinary.running)
	}
	require.Positive(t, left)
}
