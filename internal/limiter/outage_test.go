package limiter_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
)

// outage is a client whose nodes do not answer until they have recovered.
type outage struct {
	limiter   *limiter.Limiter
	life      *life.Life
	now       func() time.Duration
	unfit     atomic.Bool
	recovered atomic.Bool
	attempts  atomic.Int64
	observer  observer
}

func newOutage() *outage {
	began := time.Now()
	o := &outage{life: life.New(), now: func() time.Duration { return time.Since(began) }}
	o.limiter = limiter.New(o.now, o.life, o.unfit.Load)
	return o
}

// call asks until a quorum answers.
func (o *outage) call(ctx context.Context) error { return o.callEvery(ctx, 100*time.Millisecond) }

// callEvery is call, for a caller that rests for so long.
func (o *outage) callEvery(ctx context.Context, pause time.Duration) error {
	for {
		a, err := o.limiter.Enter(ctx, o.limiter.Asked(), 0, &o.observer)
		if err != nil {
			return err
		}
		o.attempts.Add(1)
		r := limiter.Result{Start: o.now(), Timeout: time.Second}
		if o.recovered.Load() {
			time.Sleep(time.Millisecond)
			r.Answered, r.Took = time.Millisecond, time.Millisecond
			a.Leave(r)
			return nil
		}
		r.Unanswered = true
		a.Leave(r)
		if err := a.Rest(ctx, pause); err != nil {
			return err
		}
	}
}

// Thousands of callers of a client whose nodes do not answer ask as often as sixteen would, and all go on
// soon when the nodes do.
func TestFewCallersAskAgainWhileTooFewNodesAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 10_000
		o := newOutage()
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() { assert.NoError(t, o.call(t.Context())) })
		}
		defer calls.Wait()
		defer o.recovered.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait() // sixteen ask again at this very instant
		require.InDelta(t, callers-16, o.limiter.Waiting(), 4, "one may begin before the one that leaves rests")
		require.LessOrEqual(t, o.attempts.Load(), int64(64+20*101), "the first ones come before anything is known")
		o.recovered.Store(true)
		began := time.Now()
		calls.Wait()
		require.Less(t, time.Since(began), time.Second)
		require.Zero(t, o.limiter.Waiting())
	})
}

// Each caller has its turn to ask again, also if those before it never get an answer.
func TestEachCallerAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() { assert.ErrorIs(t, o.call(ctx), context.Canceled) })
		}
		synctest.Wait()
		asked := make(chan error, 1)
		go func() {
			_, err := o.limiter.Enter(ctx, o.limiter.Asked(), 0, &o.observer)
			asked <- err
		}()
		time.Sleep(10 * time.Second) // 1000 callers, 16 in a tenth of a second
		synctest.Wait()
		require.Len(t, asked, 1)
		cancel()
		calls.Wait()
		require.Zero(t, o.limiter.Waiting())
	})
}

// Callers whose context ends, or whose client closes, leave, and others take their places.
func TestCallersThatGiveUpLeaveTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		ctx, cancel := context.WithCancel(t.Context())
		var first, others sync.WaitGroup
		for range 16 {
			first.Go(func() { assert.ErrorIs(t, o.callEvery(ctx, time.Hour), context.Canceled) })
		}
		synctest.Wait()
		results := make(chan error, 40)
		for range 20 {
			others.Go(func() { results <- o.callEvery(t.Context(), time.Hour) })
		}
		synctest.Wait()
		require.InDelta(t, 20, o.limiter.Waiting(), 4)
		cancel()
		first.Wait()
		synctest.Wait()
		require.InDelta(t, 4, o.limiter.Waiting(), 4)
		o.life.Close()
		others.Wait()
		close(results)
		for err := range results {
			require.True(t, errors.Is(err, life.ErrClosed))
		}
		require.Zero(t, o.limiter.Waiting())
	})
}

// While no majority can vote until a person acts, one caller asks in a tenth of a second. The others learn as soon, or as
// soon as their patience ends, that none can. When the person has acted, nobody waits.
func TestOneCallerAsksWhileAPersonMustAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		o.unfit.Store(true)
		enter := func(patience time.Duration) (took time.Duration, err error) {
			began := o.now()
			a, err := o.limiter.Enter(t.Context(), 0, patience, &o.observer)
			if err == nil {
				a.Leave(limiter.Result{Unanswered: true, Timeout: time.Second})
			}
			return o.now() - began, err
		}
		took, err := enter(0)
		require.NoError(t, err)
		require.Zero(t, took)
		_, begun := o.limiter.TryEnter(false)
		require.False(t, begun)
		took, err = enter(20 * time.Millisecond)
		require.ErrorIs(t, err, limiter.ErrUnfit)
		require.Equal(t, 20*time.Millisecond, took)
		var all sync.WaitGroup
		var asked atomic.Int64
		for range 10 {
			all.Go(func() {
				took, err := enter(0)
				assert.Equal(t, limiter.FailurePause-20*time.Millisecond, took)
				if err == nil {
					asked.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, asked.Load())
		o.unfit.Store(false)
		took, err = enter(0)
		require.NoError(t, err)
		require.Zero(t, took)
	})
}
