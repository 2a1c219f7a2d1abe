package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestPermitsAreDifferentSlots(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var leases []*redlock.Lease
		slots := make(map[int]bool)
		for range 3 {
			l, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1)
			require.NoError(t, err)
			require.Len(t, l.Slots(), 1)
			slot := l.Slots()[0]
			require.False(t, slots[slot], "slot %d twice", slot)
			require.Less(t, slot, 3)
			require.Positive(t, l.Token())
			require.Equal(t, "x", l.Name())
			slots[slot] = true
			leases = append(leases, l)
		}
		_, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Permits)
		require.Empty(t, held.Holder)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(time.Second))
		require.ErrorContains(t, err, `redlock: lock "x": too few permits are free (the next can expire in `)
		require.NoError(t, leases[1].Extend(t.Context()))
		require.NoError(t, leases[1].Unlock(t.Context()))
		require.NoError(t, leases[1].Unlock(t.Context()))
		again, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, leases[1].Slots()[0], again.Slots()[0])
		require.Greater(t, again.Token(), leases[1].Token())
		for _, l := range []*redlock.Lease{leases[0], leases[2], again} {
			require.NoError(t, l.Unlock(t.Context()))
		}
		net.RequireNoKeys()
	})
}

func TestPermitsAreAcquiredAllOrNone(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().Semaphore("x", 5), net.Client().Semaphore("x", 5)
		three, err := a.Acquire(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, three.Slots(), 3)
		_, err = b.TryAcquire(t.Context(), 3)
		require.ErrorIs(t, err, redlock.ErrHeld)
		two, err := b.TryAcquire(t.Context(), 2)
		require.NoError(t, err, "nothing of the refused attempt is held")
		slots := make(map[int]bool)
		for _, slot := range append(three.Slots(), two.Slots()...) {
			slots[slot] = true
		}
		require.Len(t, slots, 5)
		require.NoError(t, three.Unlock(t.Context()))
		require.NoError(t, two.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestWaiterForManyPermitsIsNotPassed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := func() *redlock.Semaphore { return net.Client().Semaphore("x", 2) }
		one, err := s().Acquire(t.Context(), 1)
		require.NoError(t, err)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i, n := range []int{2, 1} {
			all.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				assert.NoError(t, s().Do(t.Context(), n, func(context.Context, *redlock.Lease) error {
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				}))
			})
		}
		time.Sleep(5 * time.Second)
		require.Empty(t, order, "one permit is free, and the first waiter wants two")
		_, err = s().TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrHeld, "a caller that does not wait gives way")
		require.NoError(t, one.Unlock(t.Context()))
		all.Wait()
		require.Equal(t, []int{2, 1}, order)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

// Thirty callers contend for ten permits. Each waiter asks once to join the queue, and once when it
// is its turn.
func TestWaitersForPermitsHaveEqualTurnsAndFewBallots(t *testing.T) {
	testnet.SlowWithRace(t)
	const permits = 10
	for _, clients := range []int{16, 30} {
		turns := clients * 80
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			net.Delay(time.Millisecond)
			u := &usage{permits: permits}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			counts := make([]int, clients)
			var ballots atomic.Int64
			trace := &redlock.Trace{BallotStart: func(b redlock.BallotEvent) {
				if b.Op == "lock" && ctx.Err() == nil {
					ballots.Add(1)
				}
			}}
			var all sync.WaitGroup
			for i := range clients {
				s := net.Client(redlock.WithTrace(trace)).Semaphore("x", permits)
				all.Go(func() {
					for ctx.Err() == nil {
						_ = s.Do(ctx, 1, func(_ context.Context, l *redlock.Lease) error {
							counts[i]++
							switch u.begin(t, l) {
							case clients: // all have joined the queue
								ballots.Store(0)
							case clients + turns:
								cancel()
							}
							time.Sleep(20 * time.Millisecond)
							u.end(l)
							return nil
						})
					}
				})
			}
			all.Wait()
			perPermit := float64(ballots.Load()) / float64(turns)
			t.Logf("%d clients: %v turns; %.2f ballots a permit", clients, counts, perPermit)
			require.Less(t, perPermit, 3.0)
			for _, n := range counts {
				require.InDelta(t, 1, float64(n*clients)/float64(u.total), 0.2)
			}
		})
	}
}

// usage is the slots that are in use.
type usage struct {
	permits int
	mu      sync.Mutex // protects what follows
	slots   map[int]bool
	total   int
}

// begin checks that nobody else has the lease's slots. It returns how many leases there have been.
func (u *usage) begin(t *testing.T, l *redlock.Lease) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, slot := range l.Slots() {
		assert.False(t, u.slots[slot], "slot %d is held twice", slot)
		assert.Less(t, slot, u.permits)
		if u.slots == nil {
			u.slots = make(map[int]bool)
		}
		u.slots[slot] = true
	}
	u.total++
	return u.total
}

func (u *usage) end(l *redlock.Lease) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, slot := range l.Slots() {
		u.slots[slot] = false
	}
}
