package integration

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// The tests in this file show that waiters get the lock, long before a ttl ends, when a
// client dies or a wake-up is lost. Tests of internal/waitqueue show the cost in virtual
// time: of a killed first waiter, of a killed holder, of lost wake-ups, and of missing rights
// to wake.

func TestKilledHolderDelaysTheQueueByItsRemainingTTLAndALittle(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	holder := startHolder(t, nodes, 3*time.Second)
	next := queueUp(t, openClient(t, nodes.URLs()))
	awaitQueue(t, nodes, 1)

	holder.crash(t)
	remaining := remainingTTL(t, nodes)
	t.Logf("the dead holder has %v left", remaining)
	assertServedWithin(t, next, remaining+soon)
	assertNothingWaits(t, nodes)
}

// remainingTTL returns the time from now on until the lock's last key ends.
func remainingTTL(t *testing.T, nodes cluster.Nodes) time.Duration {
	t.Helper()
	start := time.Now()
	var longest time.Duration
	for _, n := range nodes {
		ms, err := redis.Int64(n.Do(t, "PTTL", prefix+queueName), nil)
		require.NoError(t, err)
		require.Positive(t, ms, "the lock's key at %s", n.Addr())
		longest = max(longest, time.Since(start)+time.Duration(ms)*time.Millisecond)
	}
	return longest
}

// awaitSubscriptions waits until each of the servers can wake the one waiter.
func awaitSubscriptions(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	for _, n := range nodes {
		require.True(t, eventually(soon, func() bool { return channels(t, n) == 1 }), "channels at %s", n.Addr())
	}
}

// channels returns the number of clients that a server can wake.
func channels(t *testing.T, n *cluster.Node) int {
	t.Helper()
	names, err := redis.Strings(n.Do(t, "PUBSUB", "CHANNELS"), nil)
	require.NoError(t, err)
	return len(names)
}

// With two of five nodes down each wake-up counts.
func TestWaiterIsServedSoonThoughWakeUpsWereLost(t *testing.T) {
	for name, lost := range map[string]int{"one of a quorum": 1, "all": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			nodes[:2].Kill(t)
			alive := nodes[2:]
			release := holdLock(t, nodes)
			next := queueUp(t, openClient(t, nodes.URLs()))
			awaitQueue(t, alive, 1)

			silence(t, alive[:lost])
			release()
			assertServedSoon(t, next)
			assertNothingWaits(t, alive)
		})
	}
}

// silence removes the right to subscribe, which also ends the present subscriptions.
func silence(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	awaitSubscriptions(t, nodes)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "default", "resetchannels")
		require.Zero(t, channels(t, n), "channels at %s", n.Addr())
	}
}
