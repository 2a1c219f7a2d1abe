package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client's waiters leave the nodes' queues before Close returns: a program that ends then leaves nobody in the way.
func TestCloseAwaitsThatItsWaitersLeaveTheQueues(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		c := testnet.ListeningClient(t, net)
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() {
				_, err := net.Mutex(c, "x").Lock(t.Context())
				ended <- err
			}()
		}
		time.Sleep(100 * ms)
		line := protocol.Key("line", "redlock:x")
		for _, n := range net.Nodes {
			require.True(t, n.Redis.Exists(line))
		}
		net.Delay(20 * ms)
		require.NoError(t, c.Close())
		for _, n := range net.Nodes {
			assert.False(t, n.Redis.Exists(line), "node %d", n.Index)
		}
		for range cap(ended) {
			require.ErrorIs(t, <-ended, redlock.ErrClosed)
		}
		require.NoError(t, held.Unlock(t.Context()))
	})
}
