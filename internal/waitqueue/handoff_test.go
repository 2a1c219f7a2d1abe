package waitqueue_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Hand-offs, and waits that end early.

func TestUncontendedLocksOpenNoSecondConnection(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		net.Held(net.Client().Mutex("x").TryLock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		require.Zero(t, net.Nodes[0].Executed("subscribe"))
		require.Len(t, net.Nodes[0].Links, 2, "one of each client")
	})
}

func TestHandOffWithoutAParkedAttemptTakesTwoRoundTrips(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		net.Delay(10 * ms)
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		got := net.Begin(b.Mutex("x").Lock)
		time.Sleep(500 * ms) // it has joined, and does not look again yet
		net.ClearLogs()
		took := testnet.Elapsed(func() {
			go func() { require.NoError(t, lease.Unlock(t.Context())) }()
			lease = <-got
		})
		require.Equal(t, 40*ms, took)
		require.NoError(t, lease.Unlock(t.Context()))
		for _, n := range net.Nodes {
			require.Equal(t, 1, n.Executed("acquire"), "one attempt")
		}
	})
}

func TestCancelAtAnyInstantLeavesNothing(t *testing.T) {
	t.Parallel()
	const halves = 2 // one for each processor
	for range halves {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				clients := clientsApart(net, 3, redlock.WithTTL(2*time.Second))
				for i, n := range net.Nodes {
					n.Set(func(n *testnet.Node) { n.Delay = time.Duration(i+1) * 2 * ms })
				}
				const atOnce = 8
				for range testnet.Tries(400, 10_000) / halves / atOnce {
					var wg sync.WaitGroup
					lease := net.Must(clients[0].Mutex("x").Lock(t.Context()))
					for i := range atOnce {
						wg.Go(func() {
							time.Sleep(rand.N(20 * ms))
							ctx, cancel := context.WithTimeout(t.Context(), rand.N(80*ms))
							defer cancel()
							got, err := clients[i%3].Mutex("x").Lock(ctx)
							if err == nil {
								require.NoError(t, got.Unlock(t.Context()))
							}
						})
					}
					served := false
					wg.Go(func() {
						next := net.Must(clients[1].Mutex("x").Lock(t.Context()))
						served = true
						require.NoError(t, next.Unlock(t.Context()))
					})
					time.Sleep(rand.N(60 * ms))
					go func() {
						time.Sleep(rand.N(40 * ms))
						require.NoError(t, lease.Unlock(t.Context()))
					}()
					took := testnet.Elapsed(wg.Wait)
					require.True(t, served)
					require.Less(t, took, 3*time.Second)
					time.Sleep(20 * ms)
					net.RequireNoKeys()
					net.RequireNoLines()
				}
			})
		})
	}
}
