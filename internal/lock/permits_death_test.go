package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// dyingWaiters makes so many clients, each with so many callers that wait for n permits of x, which has size. die
// cuts all of them off, and end connects them again and ends their callers.
func dyingWaiters(t *testing.T, net *testnet.Net, clients, callers, size, n int) (die, end func()) {
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var pools []*testnet.Cuttable
	for range clients {
		c, p := net.CuttableClient()
		pools = append(pools, p...)
		for range callers {
			waiting.Go(func() { _, _ = c.Semaphore("x", size).Acquire(ctx, n) })
		}
		time.Sleep(10 * ms)
	}
	return func() { testnet.Hold(pools, true) }, func() {
		testnet.Hold(pools, false)
		leave()
		waiting.Wait()
	}
}

// acquireOne asks for a permit of x, which has size, by a client of its own.
func acquireOne(t *testing.T, net *testnet.Net, size int) <-chan *redlock.Lease {
	got := make(chan *redlock.Lease, 1)
	next := testnet.ListeningClient(t, net)
	go func() {
		lease, err := next.Semaphore("x", size).Acquire(t.Context(), 1)
		assert.NoError(t, err)
		got <- lease
	}()
	return got
}

// Clients that wait for three permits die while two are free. They must not keep these from a caller that
// wants one.
func TestDeadWaitersForManyPermitsKeepFreeOnesForSeconds(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, *redlock.Semaphore) (*redlock.Lease, error){
		"Acquire": func(ctx context.Context, s *redlock.Semaphore) (*redlock.Lease, error) { return s.Acquire(ctx, 1) },
		"TryAcquire": func(ctx context.Context, s *redlock.Semaphore) (*redlock.Lease, error) {
			for {
				if lease, err := s.TryAcquire(ctx, 1); err == nil {
					return lease, nil
				}
				time.Sleep(50 * ms)
			}
		},
	} {
		for _, dead := range []struct{ clients, callers int }{{20, 1}, {1, 20}, {27, 2}, {9, 1}}[:testnet.Tries(2, 4)] {
			t.Run(fmt.Sprintf("%s behind %d clients with %d callers", name, dead.clients, dead.callers), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					held, err := net.Client().Semaphore("x", 3).Acquire(t.Context(), 1)
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					die, end := dyingWaiters(t, net, dead.clients, dead.callers, 3, 3)
					time.Sleep(3 * time.Second)
					die()
					var lease *redlock.Lease
					took := testnet.Elapsed(func() { lease, err = acquire(t.Context(), testnet.ListeningClient(t, net).Semaphore("x", 3)) })
					require.NoError(t, err)
					t.Log(took)
					assert.Less(t, took, 4*time.Second)
					require.NoError(t, lease.Unlock(t.Context()))
					require.NoError(t, held.Unlock(t.Context()))
					end()
				})
			})
		}
	}
}

// The first waiter lives, so its client answers each challenge, and nobody passes it. However many callers ask in
// vain, a challenge comes at most once in two seconds.
func TestLiveWaiterForManyPermitsIsSeldomChallengedAndNotPassed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const seconds = 20
		held, err := net.Client().Semaphore("x", 3).Acquire(t.Context(), 1)
		require.NoError(t, err)
		got := make(chan *redlock.Lease, 1)
		first := testnet.ListeningClient(t, net)
		for range 5 { // the client counts as alive for long by its last
			go func() {
				lease, err := first.Semaphore("x", 3).Acquire(t.Context(), 3)
				if err == nil {
					got <- lease
				}
			}()
		}
		time.Sleep(100 * ms)
		before := net.Nodes[0].Executed("permit")
		s := net.Client().Semaphore("x", 3)
		tries := 0
		for start := time.Now(); time.Since(start) < seconds*time.Second; tries++ {
			_, err := s.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, redlock.ErrHeld)
			time.Sleep(20 * ms)
		}
		polls := net.Nodes[0].Executed("permit") - before - tries
		t.Logf("%d tries, %d polls of the waiters", tries, polls)
		require.Less(t, polls, 5*seconds, "the waiters poll when they are challenged")
		require.NoError(t, held.Unlock(t.Context()))
		for range 5 {
			require.NoError(t, (<-got).Unlock(t.Context()))
		}
	})
}

// The waiters for all permits answer the challenge of the next caller, and die afterwards. That caller looks again
// in time, however many clients are ahead of it.
func TestWaitersForManyPermitsThatDieAfterTheyAnsweredKeepFreeOnesForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Semaphore("x", 4).Acquire(t.Context(), 1)
		require.NoError(t, err)
		die, end := dyingWaiters(t, net, 7, 1, 4, 4)
		time.Sleep(3 * time.Second)
		got := acquireOne(t, net, 4)
		time.Sleep(400 * ms)
		require.Empty(t, got, "the first waiter lives")
		die()
		var lease *redlock.Lease
		took := testnet.Elapsed(func() { lease = <-got })
		t.Log(took)
		assert.Less(t, took, 4*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
		end()
	})
}

// All permits are held when a caller asks behind waiters for all of them, which die. Then one permit is released.
func TestPermitThatIsReleasedToDeadWaitersForManyIsKeptForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := net.Client().Semaphore("x", 2)
		held, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		released, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		die, end := dyingWaiters(t, net, 12, 1, 2, 2)
		time.Sleep(3 * time.Second)
		die()
		got := acquireOne(t, net, 2)
		time.Sleep(400 * ms)
		var lease *redlock.Lease
		took := testnet.Elapsed(func() {
			require.NoError(t, released.Unlock(t.Context()))
			lease = <-got
		})
		t.Log(took)
		assert.Less(t, took, 4*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
		end()
	})
}
