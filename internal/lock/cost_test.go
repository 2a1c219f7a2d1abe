package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testhook"
	"github.com/redlock-go/redlock/internal/testnet"
)

func TestFreeLockNeedsNoWaitQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		for range 3 {
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			_, err = b.Mutex("x").TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		require.False(t, testhook.Engine(a).HasQueue())
		require.False(t, testhook.Engine(b).HasQueue(), "a TryLock does not wait")
	})
}

// Nodes that answer at once: the counts are the library's own, and exact. A server's replies cost
// some more, which package redis allocates.
func TestAllocationsOfALockAndAnUnlock(t *testing.T) {
	if testnet.RaceDetector {
		t.Skip("the race detector allocates")
	}
	pools := make([]redlock.Pool, 5)
	for i := range pools {
		pools[i] = testnet.InstantPool{}
	}
	c, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0))
	require.NoError(t, err)
	defer c.Close()
	pair := func(m *redlock.Mutex) {
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	made := c.Mutex("x")
	before := testing.AllocsPerRun(1000, func() { pair(made) })
	byName := testing.AllocsPerRun(1000, func() { pair(c.Mutex("x")) })
	t.Logf("%v allocations with a Mutex made before, %v by name", before, byName)
	require.LessOrEqual(t, before, 27.0)
	require.LessOrEqual(t, byName, 32.0)
}
