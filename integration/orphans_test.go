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

// Tests of orphans read the nodes: soon after a node is reachable, long before a ttl
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

// In the tests of a late scene a release arrives after another lease got the lock: it must not
// delete the newer lease's key.

// lateScene has a slow client, whose connections the test disturbs, and a quick
// one, which takes the lock meanwhile. The options are the slow one's.
type lateScene struct {
	nodes       cluster.Nodes
	slow, quick *redlock.Client
}

func newLateScene(t *testing.T, opts ...redlock.ClientOption) lateScene {
	nodes := cluster.Use(t, 5)
	s := lateScene{nodes, openClient(t, nodes.ProxyURLs(), opts...), openClient(t, nodes.URLs())}
	awaitAllVotes(t, s.slow, nodes)
	awaitAllVotes(t, s.quick, nodes)
	return s
}

// takeOver gets the lock at every node, as if the slow client's keys had expired.
func (s lateScene) takeOver(t *testing.T) *redlock.Lease {
	t.Helper()
	for _, n := range s.nodes {
		n.Do(t, "DEL", prefix+"name")
	}
	lease, err := s.quick.Mutex("name").TryLock(t.Context())
	require.NoError(t, err)
	s.assertHolds(t, lease)
	return lease
}

// assertHolds expects the lease's key at every node.
func (s lateScene) assertHolds(t *testing.T, lease *redlock.Lease) {
	t.Helper()
	var where []int
	eventually(soon, func() bool { where = s.where(t, lease); return len(where) == len(s.nodes) })
	assert.Equal(t, []int{0, 1, 2, 3, 4}, where, "nodes that have the lease's key")
}

func (s lateScene) where(t *testing.T, lease *redlock.Lease) []int {
	t.Helper()
	var where []int
	for i, n := range s.nodes {
		if n.Get(t, prefix+lease.Name()) == lease.Owner() {
			where = append(where, i)
		}
	}
	return where
}

// assertKeeps expects that every node still has the key when the slow client's last bytes
// have arrived everywhere.
func (s lateScene) assertKeeps(t *testing.T, lease *redlock.Lease) {
	t.Helper()
	awaitAllVotes(t, s.slow, s.nodes)
	time.Sleep(cluster.Stillness)
	assert.Equal(t, []int{0, 1, 2, 3, 4}, s.where(t, lease), "nodes that have the lease's key")
	require.NoError(t, lease.Unlock(t.Context()))
	assertNoKeys(t, s.nodes)
}

func TestLateReleaseLeavesANewerLeaseAlone(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "held back", strike: func(_ testing.TB, ns cluster.Nodes) { ns.Cut() }},
		{name: "on an abandoned connection", strike: func(_ testing.TB, ns cluster.Nodes) {
			for _, n := range ns {
				n.Strand()
			}
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := newLateScene(t)
			old, err := s.slow.Mutex("name").Lock(t.Context())
			require.NoError(t, err)
			f.strike(t, s.nodes[:2])
			require.NoError(t, old.Unlock(t.Context()))
			lease := s.takeOver(t)
			s.nodes.Heal()
			s.assertKeeps(t, lease)
		})
	}
}

// A client's own next lease of the name is newer too: the release of the lease before is
// still on its way to the slow nodes when the client asks again.
func TestReleaseOnItsWayLeavesTheSameClientsNextLeaseAlone(t *testing.T) {
	t.Parallel()
	s := newLateScene(t)
	for _, n := range s.nodes[:2] {
		n.Delay(30 * time.Millisecond)
	}
	for range 10 {
		lease, err := s.slow.Mutex("name").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	lease, err := s.slow.Mutex("name").TryLock(t.Context())
	require.NoError(t, err)
	s.assertHolds(t, lease)
	s.nodes.Heal()
	s.assertKeeps(t, lease)
}
