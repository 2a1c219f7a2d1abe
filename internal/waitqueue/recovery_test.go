package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The tests in this file bound in virtual time how soon locks go on. The tests on real servers show
// only that they do.

// load makes a node answer as a server that loads its data, or ends that.
func load(n *testnet.Node, yes bool) {
	n.Set(func(n *testnet.Node) {
		n.Override = nil
		if yes {
			n.Override = func(string, []string) string { return "LOADING Redis is loading the dataset in memory" }
		}
	})
}

func TestNodeVotesWithinTwoSecondsOfItsRecovery(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(n *testnet.Node) }{
		"down":    {(*testnet.Node).Down, (*testnet.Node).Up},
		"frozen":  {(*testnet.Node).Freeze, (*testnet.Node).Thaw},
		"loading": {func(n *testnet.Node) { load(n, true) }, func(n *testnet.Node) { load(n, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				// votes locks, and reports whether all nodes granted the lock.
				votes := func() bool {
					lease, err := c.Mutex("x").TryLock(t.Context())
					require.NoError(t, err)
					defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
					time.Sleep(ms)
					return net.Holders(lease) == len(net.Nodes)
				}
				require.True(t, votes())
				fault.begin(net.Nodes[0])
				for range 20 {
					require.False(t, votes())
					time.Sleep(500 * ms)
				}
				fault.end(net.Nodes[0])
				took := testnet.Elapsed(func() {
					for tries := 0; !votes() && tries < 1000; tries++ {
						time.Sleep(10 * ms)
					}
				})
				t.Logf("it votes after %v", took)
				require.LessOrEqual(t, took, 2*time.Second)
			})
		})
	}
}

// Other Redlock clients delete the key and send no wake-up.
func TestWaiterNoticesAForeignReleaseWithinAboutASecond(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:x", "foreign"))
			n.Redis.SetTTL("redlock:x", time.Minute)
		}
		_, served := testnet.QueueUp(t, net.Client(), 1)
		time.Sleep(5 * time.Second)
		for _, n := range net.Nodes {
			require.True(t, n.Redis.Del("redlock:x"))
		}
		took := testnet.Elapsed(served.Wait)
		t.Logf("the waiter is served after %v", took)
		require.LessOrEqual(t, took, 1300*ms)
	})
}
