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

// Waiters behind a set that leaves, and the order of sets among other waiters.

// A set stands first for four names, of which one is held. When it leaves, each of the others goes to the
// waiters behind it, all at once.
func TestSetThatLeavesServesAllWaitersBehindIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		a, err := holder.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		set := queued(ctx, c.Multi([]string{"a", "b", "c", "d"}))
		behind := map[string]<-chan *redlock.Lease{
			"a mutex":        queued(t.Context(), d.Mutex("b")),
			"a reader":       queued(t.Context(), d.RWMutex("c").RLocker()),
			"another reader": queued(t.Context(), holder.RWMutex("c").RLocker()),
			"another set":    queued(t.Context(), d.Multi([]string{"d", "e"})),
		}
		later := queued(t.Context(), holder.Mutex("a"))
		time.Sleep(3 * time.Second)
		for name, entered := range behind {
			require.Empty(t, entered, name)
		}
		leave()
		time.Sleep(10 * ms)
		for name, entered := range behind {
			if assert.Len(t, entered, 1, name) {
				require.NoError(t, (<-entered).Unlock(t.Context()))
			}
		}
		require.Empty(t, set)
		require.Empty(t, later, "a is held")
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, (<-later).Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}

// Readers hold the lock, a set waits for it, and readers wait behind the set: these join the readers
// ahead when the set leaves.
func TestReadersBehindASetThatLeavesJoinThoseAhead(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		first, err := holder.RWMutex("a").RLock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		set := queued(ctx, c.Multi([]string{"b", "a"}))
		readers := []<-chan *redlock.Lease{queued(t.Context(), d.RWMutex("a").RLocker()), queued(t.Context(), holder.RWMutex("a").RLocker())}
		time.Sleep(3 * time.Second)
		leave()
		time.Sleep(10 * ms)
		require.Empty(t, set)
		for i, entered := range readers {
			if assert.Len(t, entered, 1, "reader %d", i) {
				require.NoError(t, (<-entered).Unlock(t.Context()))
			}
		}
		require.True(t, first.Valid())
		require.NoError(t, first.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}

// Five waiters, each of a client of its own, get the lock in the order of their calls, and with growing tokens.
func TestSetsOfOneNameAndMutexesAreServedInTheOrderOfTheirCalls(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var waiters []<-chan *redlock.Lease
		for _, m := range []*redlock.Mutex{
			testnet.ListeningClient(t, net).Mutex("x"),
			testnet.ListeningClient(t, net).Multi([]string{"x"}),
			testnet.ListeningClient(t, net).Multi([]string{"x", "y"}),
			testnet.ListeningClient(t, net).Mutex("x"),
			testnet.ListeningClient(t, net).Multi([]string{"x"}),
		} {
			waiters = append(waiters, queued(t.Context(), m))
		}
		for i, entered := range waiters {
			token := held.Token()
			require.NoError(t, held.Unlock(t.Context()))
			time.Sleep(60 * ms)
			for later := range waiters[i+1:] {
				require.Empty(t, waiters[i+1+later], "waiter %d before waiter %d", i+1+later, i)
			}
			require.Len(t, entered, 1, "waiter %d", i)
			held = <-entered
			require.Greater(t, held.Token(), token)
		}
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}

// Each of three sets waits for a name that another one wants too. They are served in the order of their calls:
// no circle of waiters stands still, though the nodes get their attempts in different orders.
func TestSetsThatOverlapInACircleAreServedInTheOrderOfTheirCalls(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, err := net.Client().Multi([]string{"a", "b", "c"}).Lock(t.Context())
		require.NoError(t, err)
		clients := []*redlock.Client{testnet.ListeningClient(t, net), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)}
		for _, n := range net.Nodes {
			n.Set((*testnet.Node).Skew)
		}
		order := make(chan int, 3)
		for i, names := range [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
			go func() {
				lease, err := clients[i].Multi(names).Lock(t.Context())
				if assert.NoError(t, err) {
					order <- i
					time.Sleep(10 * ms)
					assert.NoError(t, lease.Unlock(t.Context()))
				}
			}()
			time.Sleep(ms)
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		for want := range 3 {
			require.Equal(t, want, <-order)
		}
		require.Less(t, time.Since(began), time.Second)
		time.Sleep(2 * time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
	})
}

// The set has waited for longer than its attempt is parked. The release that frees its last name reserves all
// of them, and one attempt takes them: so the hand-off takes two trips, and no other command of the waiter.
func TestSetWhoseAttemptIsNotParkedAsksOnceMore(t *testing.T) {
	const trip = 20 * ms
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		a, err := holder.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		b, err := holder.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(trip / 2)
		set := queued(t.Context(), c.Multi([]string{"a", "b"}))
		time.Sleep(parkFor)
		net.RequireNothingParked()
		require.NoError(t, a.Unlock(t.Context()))
		net.ClearLogs()
		began := time.Now()
		go func() { assert.NoError(t, b.Unlock(t.Context())) }()
		lease := <-set
		require.Equal(t, 2*trip, time.Since(began))
		synctest.Wait() // for the node that was not needed
		for _, n := range net.Nodes {
			require.Equal(t, 1, n.Attempts())
			require.Equal(t, 1, n.Releases(), "of b")
			require.Equal(t, 1, n.Executed("publish"), "one message to the waiter")
		}
		require.NoError(t, lease.Unlock(t.Context()))
	})
}
