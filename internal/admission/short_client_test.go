package admission_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// runShortClient opens a client that lives for one TryLock, as a job of cron does, and returns
// that call's error. TryLock asks again for three node timeouts while nodes are being admitted; its
// last attempt, and a raise, take one each.
func runShortClient(t *testing.T, net *testnet.Net) error {
	t.Helper()
	const nodeTimeout = 100 * ms // a twentieth of the ttl
	c := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
	began := time.Now()
	lease, err := c.Mutex("job").TryLock(t.Context())
	t.Logf("TryLock took %v", time.Since(began))
	require.LessOrEqual(t, time.Since(began), 5*nodeTimeout)
	if err == nil {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.NoError(t, c.Close())
	return err
}

// A job of cron is a client that lives for less than a second. The one that comes first after the
// guard gets its lock, and admits all masters before it ends.
func TestOneShortClientAfterTheGuardAdmitsAllMasters(t *testing.T) {
	for _, n := range []int{3, 5} {
		for run := range testnet.Tries(20, 50) {
			t.Run(fmt.Sprintf("%d nodes, run %d", n, run), func(t *testing.T) {
				testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
					draw := rand.New(rand.NewPCG(uint64(n), uint64(run)))
					for _, node := range net.Nodes {
						way := time.Duration(draw.Int64N(int64(5 * ms)))
						node.Set(func(node *testnet.Node) { node.Delay = way })
					}
					require.ErrorIs(t, runShortClient(t, net), redlock.ErrNoQuorum)
					time.Sleep(2*time.Second + time.Duration(draw.Int64N(int64(20*ms))))
					require.NoError(t, runShortClient(t, net))
					for i, node := range net.Nodes {
						require.NotEmpty(t, node.Redis.HGet(node.Key("record")+":"+node.Redis.HGet(node.Key("quarantine"), "name"), "nodes"), "node %d", i)
					}
				})
			})
		}
	}
}
