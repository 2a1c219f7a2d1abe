package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// fill makes the servers' memory full until the test is over.
func fill(t *testing.T, nodes cluster.Nodes) {
	for _, n := range nodes {
		n.SetConfig(t, "maxmemory", "1")
		t.Cleanup(func() { n.SetConfig(t, "maxmemory", "0") })
	}
}

func TestFullServersRefuseEachKindOfLockAndRenewThoseThatAreHeld(t *testing.T) {
	nodes := cluster.Use(t, 3)
	c := openClient(t, nodes.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, c, nodes)
	share, err := c.RWMutex("read").RLock(t.Context())
	require.NoError(t, err)
	fill(t, nodes)
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

// What passes a lease that is held to another process, or gives it back, grants nothing new.
func TestFullServersLetALeasePassToAnotherProcess(t *testing.T) {
	nodes := cluster.Use(t, 3)
	c := openClient(t, nodes.URLs(), redlock.WithTTL(5*time.Second), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, c, nodes)
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	fill(t, nodes)
	text, err := lease.Transfer(t.Context())
	require.NoError(t, err)
	resumed, err := c.Resume(t.Context(), text)
	require.NoError(t, err)

	// The key passes to "passing" and back, at one node.
	passes := protocol.TransferCall{Key: "redlock:x", Owner: resumed.Owner(), Value: "passing", TTL: 5 * time.Second}
	require.EqualValues(t, 1, nodes[0].Do(t, "EVAL", passes.Eval()...))
	require.EqualValues(t, 1, nodes[0].Do(t, "EVAL", protocol.TakeBack.Text(), 1, "redlock:x", "passing", resumed.Owner()))
	left := nodes[0].Do(t, "PTTL", "redlock:x")
	require.Positive(t, left)
	require.NoError(t, resumed.Unlock(t.Context()))
}
