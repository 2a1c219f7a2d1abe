package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests in this file bound in virtual time how soon locks go on. The tests on
// real servers show only that they do.

// loading makes a node answer as a server that loads its data.
func (n *testNode) loading(yes bool) {
	n.set(func(n *testNode) {
		n.override = nil
		if yes {
			n.override = func(string, []string) string { return "LOADING Redis is loading the dataset in memory" }
		}
	})
}

func TestNodeVotesWithinTwoSecondsOfItsRecovery(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(n *testNode) }{
		"down":    {(*testNode).down, (*testNode).up},
		"frozen":  {(*testNode).freeze, (*testNode).thaw},
		"loading": {func(n *testNode) { n.loading(true) }, func(n *testNode) { n.loading(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				c := net.client()
				// votes locks, and reports whether all nodes granted the lock.
				votes := func() bool {
					lease, err := c.Mutex("x").TryLock(t.Context())
					require.NoError(t, err)
					defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
					time.Sleep(ms)
					return net.holders(lease) == len(net.nodes)
				}
				require.True(t, votes())
				fault.begin(net.nodes[0])
				for range 20 {
					require.False(t, votes())
					time.Sleep(500 * ms)
				}
				fault.end(net.nodes[0])
				took := elapsed(func() {
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

// Other Redlock clients delete the key and wake nobody.
func TestWaiterNoticesAForeignReleaseWithinThreeSeconds(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:x", "foreign"))
			n.redis.SetTTL("redlock:x", time.Minute)
		}
		_, served := queueUp(t, net.client(), 1)
		time.Sleep(5 * time.Second)
		for _, n := range net.nodes {
			require.True(t, n.redis.Del("redlock:x"))
		}
		took := elapsed(served.Wait)
		t.Logf("the waiter is served after %v", took)
		require.LessOrEqual(t, took, 3*time.Second)
	})
}
