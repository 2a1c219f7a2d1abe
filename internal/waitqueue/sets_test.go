package waitqueue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// queued starts a Lock that has to wait, and returns where its lease will be.
func queued(ctx context.Context, m *redlock.Mutex) <-chan *redlock.Lease { return waitFor(ctx, m.Lock) }

// waitFor has a caller take a lock; it waits when this returns.
func waitFor(ctx context.Context, lock locks) <-chan *redlock.Lease {
	entered := make(chan *redlock.Lease, 1)
	go func() {
		if lease, err := lock(ctx); err == nil {
			entered <- lease
		}
	}()
	time.Sleep(50 * ms)
	return entered
}

func TestSetGetsItsNamesOneTripAfterTheLastRelease(t *testing.T) {
	const trip = 20 * ms
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		a, err := holder.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		b, err := holder.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(trip / 2)
		set := queued(t.Context(), c.Multi([]string{"a", "b"})) // refused, and its attempt is parked
		go func() { assert.NoError(t, a.Unlock(t.Context())) }()
		time.Sleep(trip)
		net.ClearLogs()
		began := time.Now()
		go func() { assert.NoError(t, b.Unlock(t.Context())) }()
		lease := <-set
		require.Equal(t, trip, time.Since(began))
		require.Greater(t, lease.Token(), max(a.Token(), b.Token()))
		for _, n := range net.Nodes {
			require.Zero(t, n.Attempts(), "the release executes the parked attempt")
		}
		time.Sleep(10 * time.Second)
		require.True(t, lease.Valid())
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}

// A waiter that wants several names leaves while it is the first in the queue of a free one: the
// waiters behind it get that at once.
func TestSetThatLeavesFreesTheNamesItKept(t *testing.T) {
	for name, behind := range map[string]func(c *redlock.Client) *redlock.Mutex{
		"for a mutex":     func(c *redlock.Client) *redlock.Mutex { return c.Mutex("b") },
		"for a reader":    func(c *redlock.Client) *redlock.Mutex { return c.RWMutex("b").RLocker() },
		"for another set": func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"b", "c"}) },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
				a, err := holder.Mutex("a").Lock(t.Context())
				require.NoError(t, err)
				ctx, leave := context.WithCancel(t.Context())
				set := queued(ctx, c.Multi([]string{"a", "b"}))
				next := queued(t.Context(), behind(d))
				time.Sleep(5 * time.Second)
				require.Empty(t, next, "b is kept for the set")
				began := time.Now()
				leave()
				lease := <-next
				require.Less(t, time.Since(began), 10*ms)
				require.Empty(t, set)
				require.NoError(t, lease.Unlock(t.Context()))
				require.NoError(t, a.Unlock(t.Context()))
				time.Sleep(time.Second)
				net.RequireNoKeys()
				net.RequireNoTraces()
			})
		})
	}
}

// The client counts as alive for long, by a waiter farther back: the one behind the set finds out
// that the client has died.
func TestNameThatADeadSetKeepsIsFreeWithinSeconds(t *testing.T) {
	for name, others := range map[string]int{"the client has one waiter": 0, "the client has many waiters": 30} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, c := net.Client(), testnet.ListeningClient(t, net)
				dying, pools := net.CuttableClient()
				a, err := holder.Mutex("a").Lock(t.Context())
				require.NoError(t, err)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				set := queued(ctx, dying.Multi([]string{"a", "b"}))
				next := queued(t.Context(), c.Mutex("b"))
				for range others {
					go func() { _, _ = dying.Mutex("b").Lock(ctx) }()
				}
				time.Sleep(3 * time.Second)
				require.Empty(t, next)
				testnet.Hold(pools, true)
				defer testnet.Hold(pools, false)
				began := time.Now()
				lease := <-next
				t.Log(time.Since(began))
				require.Less(t, time.Since(began), 4*time.Second)
				require.Empty(t, set)
				require.NoError(t, lease.Unlock(t.Context()))
				require.NoError(t, a.Unlock(t.Context()))
			})
		})
	}
}

// The set polls where it stands foremost, so that no node drops its ticket.
func TestSetInFrontOfOneQueueAndFarBackInAnotherKeepsBoth(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		b, err := holder.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 10 { // of ten clients
			queued(ctx, testnet.ListeningClient(t, net).Mutex("b"))
		}
		set := queued(t.Context(), c.Multi([]string{"a", "b"}))
		later := queued(t.Context(), d.Mutex("a"))
		for range 60 {
			time.Sleep(time.Second)
			require.Empty(t, later, "a is kept for the set")
		}
		leave()
		require.NoError(t, b.Unlock(t.Context()))
		require.NoError(t, (<-set).Unlock(t.Context()))
		require.NoError(t, (<-later).Unlock(t.Context()))
	})
}

// The set stands at position 5 in one queue, and at 21 in the other. It polls as often as its place in
// the first one needs: else its client would count as dead there.
func TestSetPollsAtThePaceOfItsNearestPosition(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(redlock.WithTTL(2*time.Minute)), testnet.ListeningClient(t, net, redlock.WithTTL(2*time.Minute)), testnet.ListeningClient(t, net)
		a, err := holder.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		b, err := holder.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 4 {
			other := testnet.ListeningClient(t, net)
			queued(ctx, other.Mutex("a"))
			for range 5 {
				queued(ctx, other.Mutex("b"))
			}
		}
		set := queued(t.Context(), c.Multi([]string{"a", "b"}))
		later := queued(t.Context(), d.Mutex("a"))
		time.Sleep(time.Minute)
		leave()
		require.NoError(t, a.Unlock(t.Context()))
		time.Sleep(2 * time.Second)
		require.Empty(t, later, "no node has dropped the set's ticket")
		require.NoError(t, b.Unlock(t.Context()))
		require.NoError(t, (<-set).Unlock(t.Context()))
		require.NoError(t, (<-later).Unlock(t.Context()))
	})
}

func TestSetAmongReadersWaitsForThoseAheadAndKeepsThoseBehindOut(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		first, err := holder.RWMutex("a").RLock(t.Context())
		require.NoError(t, err)
		set := queued(t.Context(), c.Multi([]string{"a", "b"}))
		behind := queued(t.Context(), d.RWMutex("a").RLocker())
		time.Sleep(5 * time.Second)
		require.Empty(t, set)
		require.Empty(t, behind, "no reader passes a set that asked before")
		require.NoError(t, first.Unlock(t.Context()))
		lease := <-set
		require.Empty(t, behind)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, (<-behind).Unlock(t.Context()))
		synctest.Wait()
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}
