package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestInspectShowsPermitsAndTheirWaiters(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		two, err := net.Client(redlock.WithOwnerLabel("reports")).Semaphore("x", 4).Acquire(t.Context(), 2)
		require.NoError(t, err)
		one, err := net.Client().Semaphore("x", 4, redlock.WithTTL(20*time.Second)).Acquire(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := net.Client(redlock.WithOwnerLabel("patient")).Semaphore("x", 4)
		go func() { _, _ = waiting.Acquire(ctx, 3) }()
		time.Sleep(100 * ms)
		net.Nodes[0].Redis.Del(fmt.Sprintf("redlock:x#%d", one.Slots()[0]))

		s, err := c.Inspect(t.Context(), "x")
		require.NoError(t, err)
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
		s, err = c.Inspect(t.Context(), "x")
		require.NoError(t, err)
		for _, p := range s.Permits {
			require.Equal(t, p.Owner != one.Owner(), p.Remaining > 0, "slot %d: no quorum has that of one", p.Slot)
		}
		cancel()
		require.NoError(t, two.Unlock(t.Context()))
		_ = one.Unlock(t.Context())
		synctest.Wait()
		s, err = c.Inspect(t.Context(), "x")
		require.NoError(t, err)
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
		old, err := net.Client().Semaphore("x", 256).Acquire(t.Context(), 256)
		require.NoError(t, err)
		s, err := net.Client().Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Permits, 256)
		require.Equal(t, 255, s.Permits[255].Slot)
		require.NoError(t, old.Unlock(t.Context()))
		synctest.Wait()
		next, err := net.Client().Semaphore("x", 2).Acquire(t.Context(), 2)
		require.NoError(t, err)
		s, err = net.Client().Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Permits, 2)
		require.Equal(t, 1, s.Permits[1].Slot)
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// What is at a slot's key without being a lease of a Semaphore is shown as what it is.
func TestInspectShowsForeignKeysOfSlots(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		reader, err := c.RWMutex("x#1").RLock(t.Context())
		require.NoError(t, err)
		alone, err := c.Mutex("x#2", redlock.WithMinHold(5*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, alone.Unlock(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes {
			_, err := n.Redis.Lpush("redlock:x#3", "an element")
			require.NoError(t, err)
			require.NoError(t, n.Redis.Set("redlock:x#4", ""))
			require.NoError(t, n.Redis.Set("redlock:x#05", "no slot has this number"))
		}
		s, err := c.Inspect(t.Context(), "x")
		require.NoError(t, err)
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
		stuck, err := c.Semaphore("x", 2, redlock.WithTTL(ttl), redlock.WithoutRenewal()).Acquire(t.Context(), 1)
		require.NoError(t, err)
		other, err := c.Semaphore("x", 2, redlock.WithTTL(ttl)).Acquire(t.Context(), 1)
		require.NoError(t, err)
		got := make(chan *redlock.Lease, 1)
		go func() {
			l, err := net.Client().Semaphore("x", 2).Acquire(t.Context(), 1)
			if err == nil {
				got <- l
			}
		}()
		time.Sleep(time.Second)
		slot := stuck.Slots()[0]
		s, err := net.Client().ForceUnlock(t.Context(), fmt.Sprintf("x#%d", slot))
		require.NoError(t, err)
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
		three, err := c.Semaphore("x", 4).Acquire(t.Context(), 3)
		require.NoError(t, err)
		one, err := c.Semaphore("x", 4).Acquire(t.Context(), 1)
		require.NoError(t, err)
		s, err := net.Client().ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Permits, 4, "they are shown, and not taken by the semaphore's name")
		require.NoError(t, three.Extend(t.Context()))

		_, err = net.Client().ForceUnlock(t.Context(), fmt.Sprintf("x#%d", three.Slots()[1]))
		require.NoError(t, err)
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
