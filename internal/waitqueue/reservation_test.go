package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Locks that are reserved for a waiter.

func TestNewcomersDoNotPassTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithTTL(3*time.Second)), net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(500 * ms)
		net.Die(a, lease)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:x")
		}
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "it is reserved for the first waiter")
		require.ErrorContains(t, err, "reserved for the first waiter")
		served.Wait()
		last, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, last.Unlock(t.Context()))
	})
}
