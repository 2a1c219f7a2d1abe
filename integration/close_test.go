package integration

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

var closeLeases = flag.Int("leases", 10000, "how many leases the test of Close holds; 100000 takes a minute or more")

// Their ttl is so long that no key can end by itself within the test.
func TestCloseReleasesEveryLease(t *testing.T) {
	notInShort(t)
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs(), redlock.WithTTL(10*time.Minute))
	acquireMany(t, client, *closeLeases)
	keys := 0
	for _, n := range nodes {
		keys += len(n.Keys(t))
	}
	start := time.Now()
	require.NoError(t, client.Close())
	took := time.Since(start)
	require.Empty(t, allKeys(t, nodes), "keys left, by node")
	t.Logf("%d leases with %d keys at %d nodes: Close took %v", *closeLeases, keys, len(nodes), took.Round(time.Millisecond))
}

// acquireMany acquires as many locks, from some callers at once.
func acquireMany(t *testing.T, client *redlock.Client, leases int) {
	t.Helper()
	var callers sync.WaitGroup
	var next, failed atomic.Int64
	for range 32 {
		callers.Go(func() {
			for i := next.Add(1); i <= int64(leases); i = next.Add(1) {
				if _, err := client.Mutex(fmt.Sprint("lock ", i)).Lock(t.Context()); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	require.Zero(t, failed.Load(), "calls of Lock that failed")
}
