package admission_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client that never saw a node vote takes a cluster for new, and waits for one guard alone, only if all nodes say
// that they have no record. Else it waits for twenty seconds, as the clients do that saw the nodes vote.

// The long client holds a lease for a minute at two nodes that are wiped. It looks at them within ten seconds. The third
// node could tell that the cluster is not new.
func TestNewClientLetsNoMajorityVoteBeforeAllOthersHaveLooked(t *testing.T) {
	for name, hidden := range map[string]bool{"the third node is silent": true, "the third node does not know the ttl": false} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				guard := redlock.WithRestartGuard(time.Millisecond)
				require.NoError(t, net.Guarded(redlock.WithTTL(2*time.Second)).Close())
				long, ofLong := net.CuttableClient(guard, redlock.WithTTL(2*time.Second))
				ofLong[2].Hold(true)
				defer ofLong[2].Hold(false)
				held, err := long.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context())
				require.NoError(t, err)
				require.Equal(t, 2, net.Holders(held))

				if hidden {
					net.Nodes[2].Down()
				}
				net.Nodes[0].Redis.FlushAll()
				net.Nodes[1].Redis.FlushAll()
				next := net.NewClient(guard, redlock.WithTTL(2*time.Second))
				for held.Valid() {
					_, err := next.Mutex("x").TryLock(t.Context())
					require.Error(t, err, "with %v left of the lease", held.Remaining())
					time.Sleep(100 * ms)
				}
			})
		})
	}
}

func TestNewClusterServesThoughANodeIsSilent(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[2].Down()
		c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
		var lease *redlock.Lease
		var err error
		took := testnet.Elapsed(func() { lease, err = c.Mutex("x").Lock(t.Context()) })
		require.NoError(t, err)
		require.InDelta(t, 5*time.Second+admission.MajorityLossGuard, took, float64(time.Second))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The client finds a quarantine at its end, and has not connected to the third node yet: it does not take that node for
// silent.
func TestShortClientOfANewClusterAwaitsItsFirstLooks(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		first := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
		_, err := first.Mutex("x").TryLock(t.Context())
		require.Error(t, err)
		require.NoError(t, first.Close())
		time.Sleep(5 * time.Second)
		net.Nodes[2].Set(func(n *testnet.Node) { n.Delay = 30 * ms })
		c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(time.Millisecond))
		took := testnet.Elapsed(func() { _, err = c.Mutex("x").Lock(t.Context()) })
		require.NoError(t, err)
		require.Less(t, took, 3*time.Second)
	})
}
