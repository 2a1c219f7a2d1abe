package integration

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

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
