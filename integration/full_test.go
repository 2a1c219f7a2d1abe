package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

func TestFullServersRefuseEachKindOfLockAndRenewThoseThatAreHeld(t *testing.T) {
	nodes := cluster.Use(t, 3)
	c := openClient(t, nodes.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, c, nodes)
	share, err := c.RWMutex("read").RLock(t.Context())
	require.NoError(t, err)
	for _, n := range nodes {
		n.SetConfig(t, "maxmemory", "1")
		t.Cleanup(func() { n.SetConfig(t, "maxmemory", "0") })
	}
	for name, try := range map[string]func() (*redlock.Lease, error){
		"a mutex":                 func() (*redlock.Lease, error) { return c.Mutex("x").TryLock(t.Context()) },
		"a reader":                func() (*redlock.Lease, error) { return c.RWMutex("x").TryRLock(t.Context()) },
		"a reader beside another": func() (*redlock.Lease, error) { return c.RWMutex("read").TryRLock(t.Context()) },
		"several names":           func() (*redlock.Lease, error) { return c.Multi([]string{"x", "y"}).TryLock(t.Context()) },
		"a permit":                func() (*redlock.Lease, error) { return c.Semaphore("x", 2).TryAcquire(t.Context(), 1) },
	} {
		_, err := try()
		require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
		require.ErrorContains(t, err, "OOM", name)
	}
	time.Sleep(5 * time.Second)
	require.True(t, share.Valid(), "it was renewed")
	require.NoError(t, share.Unlock(t.Context()))
}
