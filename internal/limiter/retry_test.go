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
	recovered atomic.Bool
	attempts  atomic.Int64
	observer  observer
}

func newOutage() *outage {
	began := time.Now()
	o := &outage{life: life.New()}
	o.limiter = limiter.New(func() time.Duration { return time.Since(began) }, o.life)
	return o
}

// call asks until a quorum answers.
func (o *outage) call(ctx context.Context) error {
	for {
		o.attempts.Add(1)
		if o.recovered.Load() {
			time.Sleep(time.Millisecond)
			o.limiter.Answered()
			return nil
		}
		if err := o.limiter.Retry(ctx, 100*time.Millisecond, &o.observer); err != nil {
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
		time.Sleep(10 * time.Second)
		synctest.Wait() // sixteen ask again at this very instant
		require.Equal(t, callers-16, o.limiter.Waiting())
		require.LessOrEqual(t, o.attempts.Load(), int64(callers+16*101))
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
		go func() { asked <- o.limiter.Retry(ctx, 0, &o.observer) }()
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
			first.Go(func() { assert.ErrorIs(t, o.limiter.Retry(ctx, time.Hour, &o.observer), context.Canceled) })
		}
		synctest.Wait()
		results := make(chan error, 40)
		for range 20 {
			others.Go(func() { results <- o.limiter.Retry(t.Context(), time.Minute, &o.observer) })
		}
		synctest.Wait()
		require.Equal(t, 20, o.limiter.Waiting())
		cancel()
		first.Wait()
		synctest.Wait()
		require.Equal(t, 4, o.limiter.Waiting())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, results, 16)
		o.life.Close()
		others.Wait()
		close(results)
		closed := 0
		for err := range results {
			if errors.Is(err, life.ErrClosed) {
				closed++
			}
		}
		require.Equal(t, 4, closed)
		require.Zero(t, o.limiter.Waiting())
	})
}
