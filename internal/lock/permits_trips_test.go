package lock_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestPermitTakesOneTripHoweverFullTheSemaphoreIs(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		s := c.Semaphore("x", 10)
		require.NoError(t, c.Ping(t.Context()))
		net.Delay(10 * ms)
		for range 10 {
			var lease *redlock.Lease
			require.Equal(t, 20*ms, testnet.Elapsed(func() {
				l, err := s.Acquire(t.Context(), 1)
				require.NoError(t, err)
				lease = l
			}))
			defer func() { require.NoError(t, lease.Unlock(context.Background())) }()
		}
		synctest.Wait()
		require.Equal(t, 10, net.Nodes[0].Executed("permit"))
	})
}

// A release makes permits free for the first waiters, which ask again at the same time: two trips. Which attempts a
// node executes first, at one virtual instant, is the scheduler's choice. Where two nodes chose different slots for
// an attempt, its caller asks again after a rest, so the last waiters may take longer.
func TestWaitersForPermitsEnterTogether(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const permits = 40 // more than a node wakes at once
		holder := net.Client()
		all, err := holder.Semaphore("x", permits).Acquire(t.Context(), permits)
		require.NoError(t, err)
		entered := make(chan time.Time, permits)
		var callers sync.WaitGroup
		for range permits {
			s := testnet.ListeningClient(t, net).Semaphore("x", permits)
			callers.Go(func() {
				l, err := s.Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					entered <- time.Now()
					time.Sleep(time.Second)
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
			time.Sleep(ms)
		}
		time.Sleep(100 * ms)
		net.Delay(10 * ms)
		net.ClearLogs()
		released := time.Now()
		require.NoError(t, all.Unlock(t.Context()))
		var took []time.Duration
		for range permits {
			took = append(took, (<-entered).Sub(released))
		}
		// There with the release, back with the wake-up, there and back with the attempt. The grant of the
		// first waiter wakes the seventeenth. One after the other would be 40 times 20 ms.
		assert.Equal(t, 40*ms, took[0])
		assert.LessOrEqual(t, took[permits/2], 100*ms)
		assert.LessOrEqual(t, took[permits*3/4], 250*ms)
		assert.LessOrEqual(t, net.Nodes[0].Executed("permit"), permits*3)
		callers.Wait()
		time.Sleep(2 * time.Second)
		net.RequireNoKeys()
	})
}

// Two of four permits are free. The first waiter wants three, so the one behind it, which wants one, must
// not take it: with each it takes, the first would wait for a release more.
func TestNoPermitIsTakenThatAnEarlierWaiterWants(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Semaphore("x", 4).Acquire(t.Context(), 2)
		require.NoError(t, err)
		got := make(chan int, 2)
		var callers sync.WaitGroup
		for _, n := range []int{3, 1} {
			s := testnet.ListeningClient(t, net).Semaphore("x", 4)
			callers.Go(func() {
				l, err := s.Acquire(t.Context(), n)
				if assert.NoError(t, err) {
					got <- n
					time.Sleep(time.Second)
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
			time.Sleep(ms)
		}
		time.Sleep(10 * time.Second)
		require.Empty(t, got)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.Len(t, got, 2, "four are free for three and one")
		callers.Wait()
	})
}

// A waiter at the head of the queue gives up: the one behind it, which wants less, is served at
// once.
func TestWaiterForManyPermitsThatLeavesMakesRoom(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		one, err := net.Client().Semaphore("x", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		first, second := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		go func() {
			_, err := first.Semaphore("x", 2).Acquire(ctx, 2)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		time.Sleep(ms)
		got := make(chan *redlock.Lease, 1)
		go func() {
			l, err := second.Semaphore("x", 2).Acquire(t.Context(), 1)
			assert.NoError(t, err)
			got <- l
		}()
		time.Sleep(10 * time.Second)
		require.Empty(t, got)
		leave()
		took := testnet.Elapsed(func() { require.NoError(t, (<-got).Unlock(t.Context())) })
		require.Less(t, took, 100*ms)
		require.NoError(t, one.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
	})
}

// Waiters cost the nodes little while all permits are held.
func TestWaitersForPermitsPollRarely(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Semaphore("x", 2).Acquire(t.Context(), 2)
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		for range 10 {
			s := testnet.ListeningClient(t, net).Semaphore("x", 2)
			for range 3 {
				go func() {
					_, err := s.Acquire(ctx, 1)
					assert.ErrorIs(t, err, context.Canceled)
				}()
			}
		}
		time.Sleep(5 * time.Second)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Log = nil })
		time.Sleep(time.Minute)
		perSecond := float64(net.Nodes[0].Executed("permit")) / 60
		t.Logf("%.1f attempts a second at a node", perSecond)
		require.Less(t, perSecond, 6.0)
		leave()
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestCallerThatWouldWaitForItsOwnPermitsIsRefused(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := net.Client().Semaphore("x", 3)
		require.NoError(t, s.Do(t.Context(), 2, func(ctx context.Context, outer *redlock.Lease) error {
			_, err := s.Acquire(ctx, 2)
			require.ErrorIs(t, err, redlock.ErrHeld)
			require.ErrorContains(t, err, "leases with 2 of the 3 permits")
			return s.Do(ctx, 1, func(ctx context.Context, inner *redlock.Lease) error {
				_, err := s.TryAcquire(ctx, 1)
				require.ErrorIs(t, err, redlock.ErrHeld)
				require.NoError(t, outer.Unlock(context.Background()))
				again, err := s.TryAcquire(t.Context(), 2)
				require.NoError(t, err)
				return again.Unlock(context.Background())
			})
		}))
	})
}

func TestBadNumbersOfPermits(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, permits := range []int{math.MinInt, -1, 0, 257, math.MaxInt} {
			_, err := c.Semaphore("x", permits).Acquire(t.Context(), 1)
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, "1 to 256")
		}
		for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
			_, err := c.Semaphore("x", 3).TryAcquire(t.Context(), n)
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorIs(t, c.Semaphore("x", 3).Do(t.Context(), n, nil), redlock.ErrConfig)
		}
		_, err := c.Semaphore("", 3).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrConfig)
		_, err = c.Semaphore("x", 3, redlock.WithTTL(1)).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrConfig)
		_, err = net.Client(redlock.WithPrefix("")).Semaphore("redlock::x", 3).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrConfig)

		all, err := c.Semaphore("x", 256).Acquire(t.Context(), 256)
		require.NoError(t, err)
		require.Len(t, all.Slots(), 256)
		require.ErrorIs(t, all.Downgrade(t.Context()), redlock.ErrConfig)
		require.NoError(t, all.Extend(t.Context()))
		require.NoError(t, all.Unlock(t.Context()))
		mutex, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Nil(t, mutex.Slots())
		require.NoError(t, mutex.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestPermitsWithoutTokens(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := net.Client(redlock.WithoutFencing()).Semaphore("x", 2, redlock.WithoutRenewal())
		lease, err := s.Acquire(t.Context(), 2)
		require.NoError(t, err)
		require.Zero(t, lease.Token())
		require.Zero(t, lease.Token())
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
