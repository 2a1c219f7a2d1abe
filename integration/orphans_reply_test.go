package integration

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// The tests in this file read the nodes as those of orphans_test.go do, after lost
// replies, overtaken grants and lost scripts.

func TestNoOrphanWhenTheReplyIsLost(t *testing.T) {
	t.Parallel()
	for lost := 1; lost <= 5; lost++ {
		t.Run(fmt.Sprint("of the attempt at ", lost, " nodes of 5"), func(t *testing.T) {
			nodes := cluster.Use(t, 5)
			client := openClient(t, nodes.ProxyURLs())
			awaitAllVotes(t, client, nodes)
			for _, n := range nodes[:lost] {
				n.LoseReply()
			}
			lease, err := client.Mutex("name").TryLock(t.Context())
			if lost > 2 {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			} else {
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
			}
			assertNoKeys(t, nodes)
		})
	}
	t.Run("of the release", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.ProxyURLs())
		awaitAllVotes(t, client, nodes)
		lease, err := client.Mutex("name").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range nodes {
			n.LoseReply()
		}
		if err := lease.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		assertNoKeys(t, nodes)
	})
	t.Run("of the renewal", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.ProxyURLs())
		awaitAllVotes(t, client, nodes)
		lease, err := client.Mutex("name").Lock(t.Context())
		require.NoError(t, err)
		nodes[0].Do(t, "DEL", prefix+"name") // the renewal restores it
		nodes[0].LoseReply()
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		assertNoKeys(t, nodes)
	})
}

func TestNoOrphanWhenUnlockOvertakesTheGrantOfASlowNode(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.ProxyURLs())
	awaitAllVotes(t, client, nodes)
	for i := range 20 {
		nodes[:2].Cut()
		name := fmt.Sprint("name-", i)
		lease, err := client.Mutex(name).TryLock(t.Context())
		require.NoError(t, err)
		require.Empty(t, nodes[0].Get(t, prefix+name), "the grant must be on its way still")
		require.NoError(t, lease.Unlock(t.Context()))
		nodes[:2].Heal()
	}
	// The slow grants arrive, one by one, before their releases do.
	assertNoKeys(t, nodes)
}

func TestNoOrphanAfterScriptFlush(t *testing.T) {
	t.Parallel()
	flush := func(t *testing.T, nodes cluster.Nodes) {
		for _, n := range nodes {
			n.Do(t, "SCRIPT", "FLUSH")
		}
	}
	t.Run("between two attempts", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.URLs())
		awaitAllVotes(t, client, nodes)
		for range 5 {
			lease, err := client.Mutex("name").Lock(within(t, soon))
			require.NoError(t, err)
			flush(t, nodes)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assertNoKeys(t, nodes)
	})
	t.Run("before an attempt", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.URLs())
		awaitAllVotes(t, client, nodes)
		flush(t, nodes)
		lease, err := client.Mutex("name").TryLock(t.Context())
		require.NoError(t, err, "the scripts are loaded again, in time for the same call")
		require.NoError(t, lease.Unlock(t.Context()))
		assertNoKeys(t, nodes)
	})
	t.Run("before a failed attempt", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.URLs(), shortTimeout())
		awaitAllVotes(t, client, nodes)
		nodes[:3].Freeze(t)
		flush(t, nodes[3:])
		_, err := client.Mutex("name").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		nodes.Thaw(t)
		assertNoKeys(t, nodes)
	})
	t.Run("before Extend", func(t *testing.T) {
		nodes := cluster.Use(t, 5)
		client := openClient(t, nodes.URLs())
		lease, err := client.Mutex("name").Lock(t.Context())
		require.NoError(t, err)
		flush(t, nodes)
		if err := lease.Extend(t.Context()); err != nil {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.False(t, errors.Is(err, redlock.ErrLost))
			require.NoError(t, lease.Extend(t.Context()))
		}
		require.NoError(t, lease.Unlock(t.Context()))
		assertNoKeys(t, nodes)
	})
}
