package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A node that is still to undo an attempt of the lease drops its key, so it does not keep the lease for a text. A text that
// fewer than a quorum keep is of no use.
func TestTransferThatTooFewNodesKeepLeavesTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		m := c.Mutex("x")
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Delay(5 * ms)
		net.Nodes[2].Freeze()
		time.AfterFunc(25*ms, func() { // two nodes have granted, and the third is awaited for 5 ms more
			testhook.Engine(c).Cluster.Nodes[1].Undo(testhook.Lock(m).NewUndo(lease.Owner(), ""))
		})
		text, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "1 of 3 nodes granted, 2 needed")
		require.ErrorContains(t, err, "it has not confirmed yet that an attempt of the lease is undone")
		require.Empty(t, text)
		require.True(t, lease.Valid())

		net.Nodes[2].Thaw()
		time.Sleep(time.Second)
		require.Equal(t, 3, net.Holders(lease), "the keys are the owner's again")
		text, err = lease.Transfer(t.Context())
		require.NoError(t, err)
		resumed, err := net.Client().Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
