package integration

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Real servers match patterns, page their keys, and refuse a right, as the embedded ones of other
// tests only imitate.
func TestLocksListsWhatRealServersHave(t *testing.T) {
	t.Parallel()
	const glob = `a*[b]?\:`
	nodes := cluster.Use(t, 3)
	for _, n := range nodes {
		holdNames(t, n, 3000)
		n.Do(t, "SET", "aXb?:decoy", "owner")
		n.Do(t, "HSET", prefix+"hash", "field", "value")
		n.Do(t, "SET", prefix+"text", "owner")
	}
	nodes[1].Do(t, "DEL", prefix+"text")
	nodes[1].Do(t, "HSET", prefix+"text", "field", "value")
	client, globbed := openClient(t, nodes.URLs()), openClient(t, nodes.URLs(), redlock.WithPrefix(glob))
	lease, err := globbed.Mutex("mine").Lock(within(t, soon))
	require.NoError(t, err)
	share, err := client.RWMutex("read").RLock(within(t, soon))
	require.NoError(t, err)

	assert.Len(t, listedBy(t, client, "held-*"), 3000)
	assert.Len(t, listedBy(t, client, "held-12?"), 10)
	assert.Len(t, listedBy(t, client, `held-[12]`), 2)
	assert.Equal(t, map[string]string{"mine": lease.Owner()}, listedBy(t, globbed, "*"))
	assert.Equal(t, map[string]string{"read": ""}, listedBy(t, client, "read"))
	assert.Equal(t, map[string]string{"text": "owner"}, listedBy(t, client, "text"), "of another type at one node")
	assert.Empty(t, listedBy(t, client, "hash"))
	require.NoError(t, share.Unlock(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
}

// The wait queues of locks and of semaphores are found too, by patterns of their own.
func TestLocksListsWhatIsWaitedForAtRealServers(t *testing.T) {
	t.Parallel()
	const glob = `a*[b]?\:`
	nodes := cluster.Use(t, 3)
	client := openClient(t, nodes.URLs(), redlock.WithPrefix(glob))
	permits, err := client.Semaphore("jobs", 2).Acquire(within(t, soon), 2)
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := client.Semaphore("jobs", 2).Acquire(ctx, 1)
		left <- err
	}()
	for _, n := range nodes {
		n.Do(t, "ZADD", "redlock::queue:"+glob+"free", 0, "0123456789012345-AAAAAAAAAAAAAAAA-0000000001")
		n.Do(t, "ZADD", "redlock::queue:aXb?:decoy", 0, "0123456789012345-AAAAAAAAAAAAAAAA-0000000001")
	}
	want := map[string]string{"free": "", "jobs": "", "jobs#0": permits.Owner(), "jobs#1": permits.Owner()}
	require.Eventually(t, func() bool { return maps.Equal(want, listedBy(t, client, "*")) }, soon, 50*time.Millisecond)
	assert.Len(t, listedBy(t, client, "job[r-t]"), 1)
	assert.Len(t, listedBy(t, client, "f??e"), 1)
	leave()
	require.Error(t, <-left)
	require.NoError(t, permits.Unlock(t.Context()))
}

func TestLocksNeedsTheRightToScan(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	client := openClient(t, restrict(t, nodes))
	lease, err := client.Mutex("name").Lock(within(t, soon))
	require.NoError(t, err)
	assert.Len(t, listedBy(t, client, "*"), 1)
	requireNothingRefused(t, nodes)

	nodes[0].Do(t, "ACL", "SETUSER", "locks", "-scan")
	assert.Len(t, listedBy(t, client, "*"), 1, "two of three are enough")
	nodes[2].Do(t, "ACL", "SETUSER", "locks", "-scan")
	for _, err = range client.Locks(t.Context(), "*") {
	}
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "grant the user +scan")
	require.NoError(t, lease.Unlock(t.Context()))
}

// listedBy returns the holders of the locks that a client lists, by name.
func listedBy(t *testing.T, c *redlock.Client, pattern string) map[string]string {
	t.Helper()
	holders := make(map[string]string)
	for s, err := range c.Locks(t.Context(), pattern) {
		require.NoError(t, err)
		require.NotContains(t, holders, s.Name)
		holders[s.Name] = s.Holder
	}
	return holders
}
