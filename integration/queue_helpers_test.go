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
	// queueName is the lock for which the tests of the wait queue wait, queueKey the key of
	// its queue.
	queueName = "queue"
	queueKey  = "redlock::queue:" + prefix + queueName

	// forever is longer than any test.
	forever = time.Hour
)

// holdLock takes the lock, so that other clients must wait, and returns the function that
// releases it.
func holdLock(t *testing.T, nodes cluster.Nodes) (release func()) {
	t.Helper()
	lease, err := openClient(t, nodes.URLs()).Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// queueUp lets a client ask for the lock, and release it when it is served. The
// channel gets a value when the client is served, and is closed when it has
// released the lock.
func queueUp(t *testing.T, client *redlock.Client) (served <-chan struct{}) {
	t.Helper()
	ctx := within(t, time.Minute)
	done := make(chan struct{}, 1)
	go func() {
		defer close(done)
		lease, err := client.Mutex(queueName).Lock(ctx)
		if assert.NoError(t, err) {
			done <- struct{}{}
			assert.NoError(t, lease.Unlock(ctx))
		}
	}()
	t.Cleanup(func() {
		for range done {
		}
	})
	return done
}

// awaitQueue waits until so many waiters are in the queues of a quorum of five nodes. A
// waiter that came while the machine was busy may be missing at one more.
func awaitQueue(t *testing.T, nodes cluster.Nodes, waiters int) {
	t.Helper()
	awaitQueueOf(t, nodes, queueKey, waiters)
}

// awaitQueueOf is awaitQueue for the queues of this key.
func awaitQueueOf(t *testing.T, nodes cluster.Nodes, key string, waiters int) {
	t.Helper()
	length := 0
	eventually(soon, func() bool {
		length = queueLength(t, nodes, key)
		return length >= waiters
	})
	require.GreaterOrEqual(t, length, waiters, "the wait queue")
}

// queueLength returns the number of tickets in the queues of a quorum of five nodes.
func queueLength(t *testing.T, nodes cluster.Nodes, key string) (length int) {
	t.Helper()
	at := map[string]int{}
	for _, n := range nodes {
		tickets, err := redis.Strings(n.Do(t, "ZRANGE", key, 0, -1), nil)
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

// assertServedSoon expects that a waiter is served long before a ttl ends, and
// waits until it has released the lock.
func assertServedSoon(t *testing.T, served <-chan struct{}) {
	t.Helper()
	assertServedWithin(t, served, soon)
}

func assertServedWithin(t *testing.T, served <-chan struct{}, limit time.Duration) {
	t.Helper()
	start := time.Now()
	_, ok := <-served
	require.True(t, ok, "never served")
	took := time.Since(start)
	<-served
	t.Logf("served after %v", took.Round(time.Millisecond))
	assert.LessOrEqual(t, took, limit)
}

// assertNothingWaits expects that soon no lock, reservation or wait queue is left at the
// nodes, and that this stays so.
func assertNothingWaits(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	nothing := func() bool { return len(keysOfLocks(t, nodes)) == 0 }
	require.True(t, cluster.Stays(soon, nothing), "keys are left, now, by node: %v", keysOfLocks(t, nodes))
}

// keysOfLocks returns the keys of each node that has any, except the keys of its admission
// and those that show that clients live.
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

// stays reports whether a key stays when no client locks.
func stays(key string) bool {
	kept := []string{"redlock::record:", "redlock::alive:", "redlock::newest", "redlock::quarantine:"}
	return slices.ContainsFunc(kept, func(start string) bool { return strings.HasPrefix(key, start) })
}
