package integration

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
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

// A tenth of a core at each server, by the servers' own account of their processor time, and a
// bounded memory in the client.
func TestSoakLocksLists100000NamesWithATenthOfACoreAtEachServer(t *testing.T) {
	soakOnly(t)
	const names, maxShare, maxHeap = 100_000, 0.1, 32 << 20
	nodes := cluster.Use(t, 5)
	for _, n := range nodes {
		holdNames(t, n, names)
	}
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	before := make([]time.Duration, len(nodes))
	for i, n := range nodes {
		n.Do(t, "CONFIG", "RESETSTAT")
		before[i] = processorTime(t, n)
	}
	heapBefore, heap := heapInUse(), uint64(0)
	began, listed := time.Now(), make(map[string]bool, names)
	for s, err := range client.Locks(t.Context(), "held-*") {
		require.NoError(t, err)
		require.Equal(t, "owner@label", s.Holder)
		require.False(t, listed[s.Name], "%s is listed twice", s.Name)
		listed[s.Name] = true
		if len(listed)%(names/20) == 0 {
			heap = max(heap, heapInUse())
		}
	}
	took := time.Since(began)
	require.Len(t, listed, names)
	for i, n := range nodes {
		share := (processorTime(t, n) - before[i]).Seconds() / took.Seconds()
		t.Logf("node %d: %.2f %% of a core; %s", i, 100*share, commandStats(t, n))
		assert.LessOrEqual(t, share, maxShare)
	}
	growth := max(heap, heapBefore) - heapBefore
	t.Logf("%d names in %v; the heap grew by %.1f MiB, with the test's own list of names", names, took.Round(time.Second), float64(growth)/(1<<20))
	assert.Less(t, growth, uint64(maxHeap))
}

// holdNames puts keys of so many locks at a node, by one script for each thousand.
func holdNames(t *testing.T, n *cluster.Node, names int) {
	t.Helper()
	const script = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'redlock:held-' .. i, 'owner@label', 'PX', 3600000) end"
	const atOnce = 1000
	for i := 0; i < names; i += atOnce {
		n.Do(t, "EVAL", script, 0, i, i+atOnce-1)
	}
}

// processorTime returns how long a server's process has used a processor.
func processorTime(t *testing.T, n *cluster.Node) (d time.Duration) {
	t.Helper()
	info, err := redis.String(n.Do(t, "INFO", "cpu"), nil)
	require.NoError(t, err)
	for _, mode := range []string{"used_cpu_sys", "used_cpu_user"} {
		found := regexp.MustCompile(mode + `:([\d.]+)`).FindStringSubmatch(info)
		require.NotNil(t, found, info)
		seconds, err := strconv.ParseFloat(found[1], 64)
		require.NoError(t, err)
		d += time.Duration(seconds * float64(time.Second))
	}
	return d
}

// commandStats returns how often a server executed the commands of a listing, and for how long.
func commandStats(t *testing.T, n *cluster.Node) (text string) {
	t.Helper()
	stats, err := redis.String(n.Do(t, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	for _, command := range []string{"scan", "eval", "evalsha"} {
		if found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+),usec=(\d+)`).FindStringSubmatch(stats); found != nil {
			text += fmt.Sprintf("%s: %s calls, %s µs; ", command, found[1], found[2])
		}
	}
	return text
}

// heapInUse returns the bytes of the heap that are in use after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
