package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// The tests in this file read the nodes: soon after a node is reachable, long before a ttl
// ends, none of our keys may be left there.

func TestNoOrphanAfterCtxIsCancelledInMidBallot(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.ProxyURLs())
	awaitAllVotes(t, client, nodes)
	for _, n := range nodes {
		n.Delay(10 * time.Millisecond)
	}
	cancelled := 0
	for i := range 30 {
		// From before the first request arrives to after the last answer left.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		lease, err := client.Mutex(fmt.Sprint("name-", i)).TryLock(ctx)
		cancel()
		if err == nil {
			require.NoError(t, lease.Unlock(t.Context()))
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancelled++
	}
	assert.Greater(t, cancelled, 10, "the test must cancel in mid-ballot")
	assertNoKeys(t, nodes)
}

func TestNoOrphanAfterAQuorumWasMissed(t *testing.T) {
	for _, f := range []fault{down, frozen, cutOff} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			client := openClient(t, f.urls(nodes), shortTimeout())
			awaitAllVotes(t, client, nodes)
			f.strike(t, nodes[:3])
			for i := range 3 {
				_, err := client.Mutex(fmt.Sprint("name-", i)).TryLock(t.Context())
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
			assertNoKeys(t, nodes[3:])
			f.repair(t, nodes[:3])
			assertNoKeys(t, nodes)
		})
	}
}

// The nodes have the key; when it is released they have no connection.
func TestNoOrphanWhenALockIsReleasedWhileNodesThatHaveItAreAway(t *testing.T) {
	notInShort(t)
	kept := down
	kept.strike = func(t testing.TB, ns cluster.Nodes) {
		for _, n := range ns {
			n.Save(t)
		}
		ns.Kill(t)
	}
	for _, f := range []fault{kept, frozen, cutOff} {
		for _, away := range []int{2, 3} {
			t.Run(fmt.Sprint(away, " nodes of 5 ", f.name), func(t *testing.T) {
				t.Parallel()
				nodes := cluster.Use(t, 5)
				client := openClient(t, f.urls(nodes), shortTimeout())
				awaitAllVotes(t, client, nodes)
				lease, err := client.Mutex("name").Lock(t.Context())
				require.NoError(t, err)
				f.strike(t, nodes[:away])
				// A connection on which nothing is answered does not live for long.
				if other, err := client.Mutex("other").TryLock(t.Context()); err == nil {
					require.NoError(t, other.Unlock(t.Context()))
				}
				time.Sleep(connectionLife + 500*time.Millisecond)
				if err := lease.Unlock(t.Context()); away > 2 {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
				} else {
					require.NoError(t, err)
				}
				f.repair(t, nodes[:away])
				assertNoKeys(t, nodes)
			})
		}
	}
}

// The client gives a connection up, and its last bytes arrive at the server long after the
// undos on the next one.
func TestNoOrphanWhenTheLastBytesOfADroppedConnectionArriveLate(t *testing.T) {
	notInShort(t)
	run := func(t *testing.T, stranded int, attempt func(t *testing.T, client *redlock.Client, reconnect func())) {
		t.Parallel()
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.ProxyURLs(), shortTimeout())
		awaitAllVotes(t, client, nodes)
		for _, n := range nodes[:stranded] {
			n.Strand()
		}
		attempt(t, client, func() { awaitAllVotes(t, client, nodes) })
		assertNoKeys(t, nodes)
		nodes.Heal()
		time.Sleep(cluster.Stillness)
		require.Empty(t, allKeys(t, nodes))
	}
	t.Run("those of a failed attempt", func(t *testing.T) {
		run(t, 3, func(t *testing.T, client *redlock.Client, reconnect func()) {
			_, err := client.Mutex("name").TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			reconnect()
		})
	})
	t.Run("those of a lock that was released before", func(t *testing.T) {
		run(t, 2, func(t *testing.T, client *redlock.Client, reconnect func()) {
			lease, err := client.Mutex("name").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			reconnect()
		})
	})
	t.Run("those of a lock that was released on the next connection", func(t *testing.T) {
		run(t, 2, func(t *testing.T, client *redlock.Client, reconnect func()) {
			lease, err := client.Mutex("name").TryLock(t.Context())
			require.NoError(t, err)
			reconnect()
			require.NoError(t, lease.Unlock(t.Context()))
		})
	})
}
