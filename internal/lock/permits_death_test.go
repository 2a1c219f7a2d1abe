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
	"github.com/redlock-go/redlock/internal/testnet"
)

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
					ctx, leave := context.WithCancel(t.Context())
					var callers sync.WaitGroup
					var pools []*testnet.Cuttable
					for range dead.clients {
						c, p := net.CuttableClient()
						pools = append(pools, p...)
						for range dead.callers {
							callers.Go(func() { _, _ = c.Semaphore("x", 3).Acquire(ctx, 3) })
						}
						time.Sleep(10 * ms)
					}
					time.Sleep(3 * time.Second)
					testnet.Hold(pools, true)
					var lease *redlock.Lease
					took := testnet.Elapsed(func() { lease, err = acquire(t.Context(), testnet.ListeningClient(t, net).Semaphore("x", 3)) })
					require.NoError(t, err)
					t.Log(took)
					assert.Less(t, took, 4*time.Second)
					require.NoError(t, lease.Unlock(t.Context()))
					require.NoError(t, held.Unlock(t.Context()))
					testnet.Hold(pools, false)
					leave()
					callers.Wait()
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
