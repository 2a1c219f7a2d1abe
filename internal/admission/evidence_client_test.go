package admission_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// All nodes say that they have no record, and something else shows that the cluster is not new. The client that holds a
// lease for a minute is cut off for two seconds only.

var shortGuard = []redlock.ClientOption{redlock.WithTTL(2 * time.Second), redlock.WithRestartGuard(time.Millisecond)}

// lockForAMinute returns a lease of a client that is cut off by pools.
func lockForAMinute(t *testing.T, net *testnet.Net) (held *redlock.Lease, pools []*testnet.Cuttable) {
	c, pools := net.CuttableClient(shortGuard...)
	held, err := c.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context())
	require.NoError(t, err)
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
		held, err := c.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
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
