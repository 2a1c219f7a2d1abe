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
		a := net.Must(holder.Mutex("a").Lock(t.Context()))
		b := net.Must(holder.Mutex("b").Lock(t.Context()))
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
				a := net.Must(holder.Mutex("a").Lock(t.Context()))
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
				a := net.Must(holder.Mutex("a").Lock(t.Context()))
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
		b := net.Must(holder.Mutex("b").Lock(t.Context()))
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
		a := net.Must(holder.Mutex("a").Lock(t.Context()))
		b := net.Must(holder.Mutex("b").Lock(t.Context()))
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
		first := net.Must(holder.RWMutex("a").RLock(t.Context()))
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

// Waiters behind a set that leaves, and the order of sets among other waiters.

// A set stands first for four names, and one of them is held. When the set leaves, each of the other three goes to the
// waiters behind it, all at once.
func TestSetThatLeavesServesAllWaitersBehindIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		a := net.Must(holder.Mutex("a").Lock(t.Context()))
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
		first := net.Must(holder.RWMutex("a").RLock(t.Context()))
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
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
		a := net.Must(net.Client().Multi([]string{"a", "b", "c"}).Lock(t.Context()))
		clients := []*redlock.Client{testnet.ListeningClient(t, net), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)}
		net.Nodes.Set((*testnet.Node).Skew)
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
		a := net.Must(holder.Mutex("a").Lock(t.Context()))
		b := net.Must(holder.Mutex("b").Lock(t.Context()))
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
