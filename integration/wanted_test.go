package integration

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// useWanted has holders of each kind told: of a waiter, by a message and by a renewal that restores a key, and by an ask.
func useWanted(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	awaitAllVotes(t, a, nodes)
	for _, m := range []*redlock.Mutex{a.Mutex("name", redlock.WithWanted()), a.Multi([]string{"name", "other"}, redlock.WithWanted())} {
		ctx := within(t, 3*soon)
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		awaitKey(t, nodes, "name", lease)
		require.NoError(t, lease.Extend(ctx))
		select {
		case <-lease.Wanted():
			require.Fail(t, "nobody wants it")
		default:
		}
		next := lockAndUnlock(ctx, b.Mutex("name"))
		awaitClosed(t, lease.Wanted())
		nodes[0].Do(t, "DEL", prefix+"name")
		require.NoError(t, lease.Extend(ctx))
		require.NoError(t, lease.Unlock(ctx))
		require.NoError(t, <-next)

		lease, err = m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, b.Ask(ctx, "name"))
		awaitClosed(t, lease.Wanted())
		require.True(t, eventually(soon, func() bool { // neither Ask nor Extend waits for the last node
			require.NoError(t, lease.Extend(ctx))
			return !slices.ContainsFunc(nodes, func(n *cluster.Node) bool {
				return n.Do(t, "EXISTS", protocol.AskedKey(prefix+"name")) == int64(1)
			})
		}), "a renewal deletes what it has read")
		require.NoError(t, lease.Unlock(ctx))
	}
}

// useWantedShares does the same with readers, who learn by renewals.
func useWantedShares(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	var writer <-chan error
	for _, want := range []func(){
		func() { writer = lockAndUnlock(ctx, b.Mutex("name")); awaitWaiters(t, a, "name", 1) },
		func() { require.NoError(t, b.Ask(ctx, "name")) },
	} {
		share, err := a.RWMutex("name", redlock.WithWanted()).RLock(ctx)
		require.NoError(t, err)
		want()
		require.NoError(t, share.Extend(ctx))
		awaitClosed(t, share.Wanted())
		require.NoError(t, share.Unlock(ctx))
	}
	require.NoError(t, <-writer)
}

func awaitClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	require.True(t, eventually(soon, func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}), "it was not told")
}

// A user without the right to publish, or to subscribe, learns by the next renewal.
func TestAHolderWithoutMessagesIsToldByItsRenewal(t *testing.T) {
	t.Parallel()
	notInShort(t)
	for _, right := range []string{"+publish", "+subscribe"} {
		nodes := cluster.Use(t, 3)
		urls := restrict(t, nodes, right)
		ctx := within(t, 3*soon)
		lease, err := openClient(t, urls).Mutex("name", redlock.WithWanted()).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, openClient(t, urls).Ask(ctx, "name"))
		require.NoError(t, lease.Extend(ctx))
		awaitClosed(t, lease.Wanted())
		require.NoError(t, lease.Unlock(ctx))
	}
}
