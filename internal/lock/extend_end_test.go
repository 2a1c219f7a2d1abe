package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// ExtendTo changes for how long a lease may be trusted. The keys stand for the lock delay longer, and
// until the minimum hold is over.
func TestExtendToKeepsTheLockDelayAndTheMinimumHold(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		for _, to := range []time.Duration{20 * time.Second, 2 * time.Second} {
			lease, err := c.Mutex("x", redlock.WithLockDelay(5*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.ExtendTo(t.Context(), to))
			synctest.Wait()
			require.InDelta(t, to.Seconds(), lease.Remaining().Seconds(), 0.5)
			for _, n := range net.Nodes {
				require.InDelta(t, (to + 5*time.Second).Seconds(), n.Redis.TTL("redlock:x").Seconds(), 0.5)
			}
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lease, err := c.Mutex("y", redlock.WithMinHold(8*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.ExtendTo(t.Context(), 2*time.Second))
		synctest.Wait()
		require.InDelta(t, 2, lease.Remaining().Seconds(), 0.5)
		for _, n := range net.Nodes {
			require.InDelta(t, 8, n.Redis.TTL("redlock:y").Seconds(), 0.5)
		}
	})
}
