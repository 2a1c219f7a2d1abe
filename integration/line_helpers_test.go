package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

const (
	// lineName is the lock for which the tests of the line wait, lineKey its line.
	lineName = "queue"
	lineKey  = "redlock::line:" + prefix + lineName

	// forever is longer than any test.
	forever = time.Hour

	// soon is how long a waiter may take to look again by itself: a second or so.
	soon = 1500 * time.Millisecond
)

// holdLine takes the lock, so that others have something to wait for, and
// returns how to release it.
func holdLine(t *testing.T, nodes cluster.Nodes) (release func()) {
	t.Helper()
	lease, err := openClient(t, nodes.URLs()).Mutex(lineName).Lock(within(t, 5*time.Second))
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// queueUp lets a client ask for the lock, and release it when it is served. The
// channel tells when that was; it is closed when all is over.
func queueUp(t *testing.T, client *redlock.Client) (served <-chan time.Time) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	when := make(chan time.Time, 1)
	go func() {
		defer close(when)
		lease, err := client.Mutex(lineName).Lock(ctx)
		if assert.NoError(t, err) {
			when <- time.Now()
			assert.NoError(t, lease.Unlock(ctx))
		}
	}()
	t.Cleanup(func() {
		for range when {
		}
	})
	return when
}

// awaitLine waits until so many stand in line at a quorum of five nodes. Who came
// when the machine was busy may be missing at one more.
func awaitLine(t *testing.T, nodes cluster.Nodes, waiters int) {
	t.Helper()
	length := 0
	eventually(5*time.Second, func() bool {
		length = lineLength(t, nodes)
		return length >= waiters
	})
	require.GreaterOrEqual(t, length, waiters, "the line")
}

// lineLength counts the tickets that stand in line at a quorum of five nodes.
func lineLength(t *testing.T, nodes cluster.Nodes) (length int) {
	t.Helper()
	at := map[string]int{}
	for _, n := range nodes {
		tickets, err := redis.Strings(n.Do(t, "ZRANGE", lineKey, 0, -1), nil)
		require.NoError(t, err)
		for _, ticket := range tickets {
			at[ticket]++
			if at[ticket] == 3 {
				length++
			}
		}
	}
	return length
}

// assertServedWithin expects that the next one is served so soon after the start,
// and waits until it is done.
func assertServedWithin(t *testing.T, served <-chan time.Time, start time.Time, limit time.Duration, late *hiccups) {
	t.Helper()
	when, ok := <-served
	require.True(t, ok, "never served")
	<-served // it has released the lock: who asks next need not wait
	took := when.Sub(start)
	t.Logf("served after %v; limit %v, measured with a tolerance of %v", took, limit, late.allowance())
	assert.LessOrEqual(t, took, limit+late.allowance())
}

// assertNothingWaits expects that soon no lock, reservation or line is left at
// the nodes, and that this stays so.
func assertNothingWaits(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	eventually(cleanUp, func() bool { return len(keysOfLocks(t, nodes)) == 0 })
	require.Empty(t, keysOfLocks(t, nodes), "keys left, by node")
	time.Sleep(stillness)
	require.Empty(t, keysOfLocks(t, nodes), "keys came back, by node")
}

// keysOfLocks returns the keys of each node that has any, but for its record of
// counters and the signs of life of clients.
func keysOfLocks(t *testing.T, nodes cluster.Nodes) map[int][]string {
	t.Helper()
	all := map[int][]string{}
	for i, n := range nodes {
		keys := slices.DeleteFunc(n.Keys(t), stays)
		if len(keys) > 0 {
			all[i] = keys
		}
	}
	return all
}

func stays(key string) bool {
	kept := []string{"redlock::record:", "redlock::alive:", "redlock::newest", "redlock::bar:"}
	return slices.ContainsFunc(kept, func(start string) bool { return strings.HasPrefix(key, start) })
}
