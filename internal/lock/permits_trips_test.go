package lock_test

import (
	"context"
	"fmt"
	"math"
	"slices"
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
				l := net.Must(s.Acquire(t.Context(), 1))
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
		all := net.Must(holder.Semaphore("x", permits).Acquire(t.Context(), permits))
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
		held := net.Must(net.Client().Semaphore("x", 4).Acquire(t.Context(), 2))
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
		one := net.Must(net.Client().Semaphore("x", 2).Acquire(t.Context(), 1))
		ctx, leave := context.WithCancel(t.Context())
		first, second := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		go func() {
			_, err := first.Semaphore("x", 2).Acquire(ctx, 2)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		time.Sleep(ms)
		got := net.Begin(testnet.Acquire(second.Semaphore("x", 2), 1))
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
		held := net.Must(net.Client().Semaphore("x", 2).Acquire(t.Context(), 2))
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
				net.Held(s.TryAcquire(ctx, 1))
				require.NoError(t, outer.Unlock(context.Background()))
				again := net.Must(s.TryAcquire(t.Context(), 2))
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

		all := net.Must(c.Semaphore("x", 256).Acquire(t.Context(), 256))
		require.Len(t, all.Slots(), 256)
		require.ErrorIs(t, all.Downgrade(t.Context()), redlock.ErrConfig)
		require.NoError(t, all.Extend(t.Context()))
		require.NoError(t, all.Unlock(t.Context()))
		mutex := net.Must(c.Mutex("x").Lock(t.Context()))
		require.Nil(t, mutex.Slots())
		require.NoError(t, mutex.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestPermitsWithoutTokens(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := net.Client(redlock.WithoutFencing()).Semaphore("x", 2, redlock.WithoutRenewal())
		lease := net.Must(s.Acquire(t.Context(), 2))
		require.Zero(t, lease.Token())
		require.Zero(t, lease.Token())
		net.Held(s.TryAcquire(t.Context(), 1))
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestInspectShowsPermitsAndTheirWaiters(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		two := net.Must(net.Client(redlock.WithOwnerLabel("reports")).Semaphore("x", 4).Acquire(t.Context(), 2))
		one := net.Must(net.Client().Semaphore("x", 4, redlock.WithTTL(20*time.Second)).Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := net.Client(redlock.WithOwnerLabel("patient")).Semaphore("x", 4)
		go func() { _, _ = waiting.Acquire(ctx, 3) }()
		time.Sleep(100 * ms)
		net.Nodes[0].Redis.Del(fmt.Sprintf("redlock:x#%d", one.Slots()[0]))

		s := net.Status(c.Inspect(t.Context(), "x"))
		require.Empty(t, s.Holder, "a Mutex of this name is another lock")
		require.Len(t, s.Permits, 3)
		requireHeld(t, s, one, 4)
		requireHeld(t, s, two, 5)
		require.Equal(t, "reports", two.Label())
		require.Equal(t, two.Token(), tokenOf(s, two.Slots()[0]))
		require.Len(t, s.Nodes[0].Permits, 2)
		require.Len(t, s.Nodes[1].Permits, 3)
		require.Len(t, s.Queue, 1)
		require.Equal(t, 3, s.Queue[0].Permits)
		require.Equal(t, 4, s.Queue[0].Limit)
		require.Equal(t, "patient", s.Queue[0].Label)
		require.GreaterOrEqual(t, s.Queue[0].Nodes, 3)
		require.Len(t, s.Nodes[1].Queue, 1)

		for _, n := range net.Nodes[:3] { // a minority has the key
			n.Redis.Del(fmt.Sprintf("redlock:x#%d", one.Slots()[0]))
		}
		s = net.Status(c.Inspect(t.Context(), "x"))
		for _, p := range s.Permits {
			require.Equal(t, p.Owner != one.Owner(), p.Remaining > 0, "slot %d: no quorum has that of one", p.Slot)
		}
		cancel()
		require.NoError(t, two.Unlock(t.Context()))
		_ = one.Unlock(t.Context())
		synctest.Wait()
		s = net.Status(c.Inspect(t.Context(), "x"))
		require.Empty(t, s.Permits)
		require.Empty(t, s.Queue)
		net.RequireNoKeys()
	})
}

// requireHeld requires that Inspect has found the lease's permits at so many nodes.
func requireHeld(t *testing.T, s redlock.Status, l *redlock.Lease, nodes int) {
	t.Helper()
	require.True(t, slices.IsSortedFunc(s.Permits, func(a, b redlock.PermitStatus) int { return a.Slot - b.Slot }))
	for _, slot := range l.Slots() {
		i := slices.IndexFunc(s.Permits, func(p redlock.PermitStatus) bool { return p.Slot == slot })
		require.GreaterOrEqual(t, i, 0, "slot %d", slot)
		p := s.Permits[i]
		require.Equal(t, l.Owner(), p.Owner)
		require.Equal(t, l.Label(), p.Label)
		require.Equal(t, nodes, p.Nodes)
		require.Positive(t, p.Token)
		require.InDelta(t, l.Remaining(), p.Remaining, float64(time.Second))
	}
}

func tokenOf(s redlock.Status, slot int) int64 {
	for _, p := range s.Permits {
		if p.Slot == slot {
			return p.Token
		}
	}
	return 0
}

// Clients with another number of permits show by the slots that they have.
func TestInspectShowsSlotsBeyondASmallerNumberOfPermits(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		old := net.Must(net.Client().Semaphore("x", 256).Acquire(t.Context(), 256))
		s := net.Status(net.Client().Inspect(t.Context(), "x"))
		require.Len(t, s.Permits, 256)
		require.Equal(t, 255, s.Permits[255].Slot)
		require.NoError(t, old.Unlock(t.Context()))
		synctest.Wait()
		next := net.Must(net.Client().Semaphore("x", 2).Acquire(t.Context(), 2))
		s = net.Status(net.Client().Inspect(t.Context(), "x"))
		require.Len(t, s.Permits, 2)
		require.Equal(t, 1, s.Permits[1].Slot)
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// What is at a slot's key without being a lease of a Semaphore is shown as what it is.
func TestInspectShowsForeignKeysOfSlots(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		reader := net.Must(c.RWMutex("x#1").RLock(t.Context()))
		alone := net.Must(c.Mutex("x#2", redlock.WithMinHold(5*time.Second)).Lock(t.Context()))
		require.NoError(t, alone.Unlock(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes {
			_, err := n.Redis.Lpush("redlock:x#3", "an element")
			require.NoError(t, err)
			require.NoError(t, n.Redis.Set("redlock:x#4", ""))
			require.NoError(t, n.Redis.Set("redlock:x#05", "no slot has this number"))
		}
		s := net.Status(c.Inspect(t.Context(), "x"))
		var owners []string
		for i, p := range s.Permits {
			require.Equal(t, i+1, p.Slot)
			owners = append(owners, p.Owner)
		}
		require.Equal(t, []string{"(readers)", alone.Owner(), "(a key of another type)", "(an empty value)"}, owners)
		require.Negative(t, s.Permits[3].Remaining, "it never ends")
		require.NoError(t, reader.Unlock(t.Context()))
	})
}

// An operator takes one slot from a holder. The holder loses all its permits, and waiters of the
// semaphore get what is free, without a wait for the holder's ttl.
func TestForceUnlockOfASlotHandsItToTheSemaphoresFirstWaiter(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		const ttl = time.Hour
		c := net.Client()
		stuck := net.Must(c.Semaphore("x", 2, redlock.WithTTL(ttl), redlock.WithoutRenewal()).Acquire(t.Context(), 1))
		other := net.Must(c.Semaphore("x", 2, redlock.WithTTL(ttl)).Acquire(t.Context(), 1))
		got := net.Begin(testnet.Acquire(net.Client().Semaphore("x", 2), 1))
		time.Sleep(time.Second)
		slot := stuck.Slots()[0]
		s := net.Status(net.Client().ForceUnlock(t.Context(), fmt.Sprintf("x#%d", slot)))
		require.Equal(t, stuck.Owner(), s.Holder)
		require.Greater(t, s.Token, stuck.Token())
		time.Sleep(10 * ms) // a wake-up, and one trip
		synctest.Wait()
		require.Len(t, got, 1, "the waiter was not woken")
		next := <-got
		require.Equal(t, slot, next.Slots()[0])
		require.Greater(t, next.Token(), s.Token)
		require.ErrorIs(t, stuck.Extend(t.Context()), redlock.ErrLost)
		require.NoError(t, other.Err())
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestForceUnlockOfASlotTakesAllPermitsOfItsLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		three := net.Must(c.Semaphore("x", 4).Acquire(t.Context(), 3))
		one := net.Must(c.Semaphore("x", 4).Acquire(t.Context(), 1))
		s := net.Status(net.Client().ForceUnlock(t.Context(), "x"))
		require.Len(t, s.Permits, 4, "they are shown, and not taken by the semaphore's name")
		require.NoError(t, three.Extend(t.Context()))

		net.Status(net.Client().ForceUnlock(t.Context(), fmt.Sprintf("x#%d", three.Slots()[1])))
		<-three.Done() // its next renewal finds that
		require.ErrorIs(t, three.Err(), redlock.ErrLost)
		synctest.Wait()
		require.NoError(t, one.Err())
		again, err := net.Client().Semaphore("x", 4).TryAcquire(t.Context(), 3)
		require.NoError(t, err, "the slots that were not taken came back with the loss")
		require.NoError(t, one.Unlock(t.Context()))
		require.NoError(t, again.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
	})
}
