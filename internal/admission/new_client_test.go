package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client that never saw a node vote takes a cluster for new, and waits for one guard alone, only if all nodes say
// that they have no record. Else it waits for twenty seconds, as the clients do that saw the nodes vote.

// The long client holds a lease for a minute at two nodes that are wiped. It looks at them within ten seconds. The third
// node could tell that the cluster is not new.
func TestNewClientLetsNoMajorityVoteBeforeAllOthersHaveLooked(t *testing.T) {
	for name, hidden := range map[string]bool{"the third node is silent": true, "the third node does not know the ttl": false} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				guard := redlock.WithRestartGuard(time.Millisecond)
				require.NoError(t, net.Guarded(redlock.WithTTL(2*time.Second)).Close())
				long, ofLong := net.CuttableClient(guard, redlock.WithTTL(2*time.Second))
				ofLong[2].Hold(true)
				defer ofLong[2].Hold(false)
				held := net.Must(long.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context()))
				require.Equal(t, 2, net.Holders(held))

				if hidden {
					net.Nodes[2].Down()
				}
				net.Nodes[0].Redis.FlushAll()
				net.Nodes[1].Redis.FlushAll()
				next := net.NewClient(guard, redlock.WithTTL(2*time.Second))
				for held.Valid() {
					_, err := next.Mutex("x").TryLock(t.Context())
					require.Error(t, err, "with %v left of the lease", held.Remaining())
					time.Sleep(100 * ms)
				}
			})
		})
	}
}

// Another client may have a list with another server in the place of the one that does not answer. So a list begins when
// all of its masters answer, whether it is new, or all of them were wiped.
func TestListBeginsWhenAllOfItsMastersAnswer(t *testing.T) {
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprint(wiped), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				if wiped {
					require.NoError(t, net.Guarded(redlock.WithTTL(5*time.Second)).Close())
					for _, n := range net.Nodes {
						n.Restart(nil)
					}
				}
				net.Nodes[2].Down()
				c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				votes := net.NoQuorum(c.Mutex("x").Lock(ctx))
				require.ErrorContains(t, votes, "votes again when all nodes answer (2 of 3 did)")
				net.Nodes[2].Up()
				var lease *redlock.Lease
				took := testnet.Elapsed(func() { lease = net.Must(c.Mutex("x").Lock(t.Context())) })
				require.Less(t, took, 5*time.Second+admission.MajorityLossGuard)
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// The client finds a quarantine at its end, and has not connected to the third node yet: it does not take that node for
// silent.
func TestShortClientOfANewClusterAwaitsItsFirstLooks(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		first := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
		_, err := first.Mutex("x").TryLock(t.Context())
		require.Error(t, err)
		require.NoError(t, first.Close())
		time.Sleep(5 * time.Second)
		net.Nodes[2].Set(func(n *testnet.Node) { n.Delay = 30 * ms })
		c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
		took := testnet.Elapsed(func() { _, err = c.Mutex("x").Lock(t.Context()) })
		require.NoError(t, err)
		require.Less(t, took, 3*time.Second)
	})
}

// All nodes say that they have no record, and something else shows that the cluster is not new. The client that holds a
// lease for a minute is cut off for two seconds only.

var shortGuard = []redlock.ClientOption{redlock.WithTTL(2 * time.Second), redlock.WithRestartGuard(time.Millisecond)}

// lockForAMinute returns a lease of a client that is cut off by pools.
func lockForAMinute(t *testing.T, net *testnet.Net) (held *redlock.Lease, pools []*testnet.Cuttable) {
	c, pools := net.CuttableClient(shortGuard...)
	held = net.Must(c.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context()))
	return held, pools
}

// requireNoSecond has the next client ask for so long while the lease is held.
func requireNoSecond(t *testing.T, next *redlock.Client, held *redlock.Lease, limit time.Duration) {
	t.Helper()
	for began := time.Now(); held.Valid() && time.Since(began) < limit; time.Sleep(100 * ms) {
		_, err := next.Mutex("x").TryLock(t.Context())
		require.Error(t, err, "two holders after %v, the first with %v left", time.Since(began), held.Remaining())
	}
}

// One node forgot before the others: the guard of its quarantine is a minute.
func TestQuarantineOfAnotherNodeShowsTheLongestTTL(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded(shortGuard...).Close())
		held, pools := lockForAMinute(t, net)
		net.Nodes[2].Redis.FlushAll()
		time.Sleep(21 * time.Second)
		require.Equal(t, "60000", net.Nodes[2].Redis.HGet(net.Nodes[2].Key("quarantine"), "guard"))
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		net.Nodes[0].Redis.FlushAll()
		net.Nodes[1].Redis.FlushAll()
		requireNoSecond(t, net.NewClient(shortGuard...), held, 15*time.Second)
	})
}

// The servers restart with data that they saved before the longest ttl was on record.
func TestOlderRecordsShowThatAClusterIsNotNew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded(shortGuard...).Close())
		var saved []map[string]any
		for _, n := range net.Nodes {
			saved = append(saved, n.Snapshot())
		}
		held, pools := lockForAMinute(t, net)
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		for i, n := range net.Nodes {
			n.Restart(saved[i])
		}
		requireNoSecond(t, net.NewClient(shortGuard...), held, 15*time.Second)
	})
}

// The next client saw the third node vote, which does not know the longest ttl, and did not reach the others.
func TestClientThatSawAnotherNodeVoteDoesNotTakeTheClusterForNew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded(shortGuard...).Close())
		c, pools := net.CuttableClient(shortGuard...)
		pools[2].Hold(true)
		held := net.Must(c.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context()))
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		next := net.NewClient(shortGuard...)
		require.Error(t, next.Ping(t.Context()))
		for _, n := range net.Nodes {
			n.Redis.FlushAll()
		}
		net.Nodes[0].Up()
		net.Nodes[1].Up()
		requireNoSecond(t, next, held, 15*time.Second)
	})
}

// Cron starts the job on several machines at the same second. The nodes are being admitted while the calls ask: that
// takes none of the tries by which callers settle a split vote.
func TestOneOfSeveralShortClientsAfterTheGuardGetsItsLock(t *testing.T) {
	const machines = 3
	for run := range testnet.Tries(20, 120) {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				draw := rand.New(rand.NewPCG(1, uint64(run)))
				var opening sync.Mutex // the test's list of clients has no lock
				open := func() *redlock.Client {
					opening.Lock()
					defer opening.Unlock()
					return net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
				}
				c := open()
				require.ErrorIs(t, c.Ping(t.Context()), redlock.ErrNoQuorum)
				require.NoError(t, c.Close())
				time.Sleep(2*time.Second + time.Millisecond)
				for _, node := range net.Nodes {
					way := time.Duration(draw.Int64N(int64(10 * ms)))
					node.Set(func(node *testnet.Node) { node.Delay = way })
				}
				granted := make(chan *redlock.Lease, machines)
				var all sync.WaitGroup
				for range machines {
					late := time.Duration(draw.Int64N(int64(5 * ms)))
					all.Go(func() {
						time.Sleep(late)
						c := open()
						lease, err := c.Mutex("job").TryLock(t.Context())
						if err != nil {
							assert.True(t, errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
							return
						}
						granted <- lease
					})
				}
				all.Wait()
				require.Len(t, granted, 1)
			})
		})
	}
}
