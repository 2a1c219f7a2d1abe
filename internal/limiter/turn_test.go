package limiter

import (
	"container/heap"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
)

// anyone is a caller that becomes urgent.
type anyone struct{ urgent bool }

func (*anyone) TurnAwaited(context.Context, int) func(error) { return func(error) {} }
func (a *anyone) IsUrgent() bool                             { return a.urgent }
func (*anyone) Changed() <-chan struct{}                     { return nil }

// grant gives a turn that is in no queue, in a pause.
func (l *Limiter) grant(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.index >= 0 {
		heap.Remove(t.in, t.index)
	}
	l.paused = true
	t.granted <- l.begin(&l.ordinary)
}

// In a crowd, a caller whose turn has come may get the processor late. The limiter takes a turn back that a pause has
// overtaken, and does so once: pauses that follow each other do not keep a caller for ever.
func TestTurnIsTakenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := New(func() time.Duration { return time.Since(began) }, life.New())
		w := &turn{in: &l.ordinary.waiting, index: -1, granted: make(chan Attempt, 1)}
		l.grant(w)
		begun := make(chan Attempt, 1)
		go func() {
			a, err := l.await(t.Context(), w, 0, &anyone{})
			require.NoError(t, err)
			begun <- a
		}()
		synctest.Wait()
		require.Empty(t, begun)
		require.Equal(t, 1, l.Waiting())
		require.Zero(t, l.ordinary.running)
		l.grant(w)
		synctest.Wait()
		require.Len(t, begun, 1)
		require.Equal(t, 1, l.ordinary.running)
	})
}

// A caller that became urgent while it had its turn is urgent when the turn is taken back.
func TestTurnThatIsTakenBackStaysUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(func() time.Duration { return 0 }, life.New())
		w := &turn{in: &l.ordinary.waiting, index: -1, granted: make(chan Attempt, 1)}
		l.grant(w)
		go func() {
			_, err := l.await(t.Context(), w, 0, &anyone{urgent: true})
			require.NoError(t, err)
		}()
		synctest.Wait()
		require.Equal(t, 1, l.urgent.waits())
		require.Zero(t, l.ordinary.waits())
		l.mu.Lock()
		l.paused = false
		l.serve(&l.urgent)
		l.mu.Unlock()
		synctest.Wait()
		require.Equal(t, 1, l.urgent.running)
	})
}

// Of two callers that one event wakes, one in each lane, either may begin first. Neither learns that from what the
// Limiter decides.
func TestLanesAreMeasuredAlikeInEitherOrder(t *testing.T) {
	for under := range 40 { // attempts that are under way: up to more than half of the first limit
		var timed [2]map[bool]bool
		for i, urgentFirst := range []bool{false, true} {
			l := New(func() time.Duration { return 0 }, life.New())
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

// A caller's context ends at the instant at which its turn comes, or its place among those that ask again. It goes on,
// or another caller gets what it had.
func TestTurnThatComesWithTheEndOfItsCallerIsNotLost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(func() time.Duration { return 0 }, life.New())
	left := 0 // without their turn
	for range 100 {
		w := &turn{in: &l.ordinary.waiting, index: -1, granted: make(chan Attempt, 1)}
		l.mu.Lock()
		w.granted <- l.begin(&l.ordinary)
		l.mu.Unlock()
		a, err := l.await(ctx, w, time.Hour, &anyone{})
		if err == nil {
			a.Leave(Result{})
		} else {
			left++
		}
		require.Zero(t, l.ordinary.running)
	}
	require.Positive(t, left)

	left = 0
	for range 100 {
		l.retries.pausing = 1 // endPause has passed a place on
		granted := make(chan bool, 1)
		granted <- true
		if pauses, err := l.awaitRetry(ctx, granted, nil); err == nil {
			require.True(t, pauses)
			l.endPause()
		} else {
			left++
		}
		require.Zero(t, l.retries.pausing)
	}
	require.Positive(t, left)
}
