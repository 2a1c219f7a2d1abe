package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Each link of a chain of transfers is shorter than a third of the ttl, and at each transfer
// another node is silent for a moment. That costs the text this node, and the next lease renews at
// once: so the node is back by the next link.
func TestChainOfShortLinksKeepsAllNodes(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		require.NoError(t, b.Ping(t.Context()))
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Delay(ms)
		var kept, held []int
		for i := range 10 {
			silent := net.Nodes[i%5]
			silent.Freeze()
			text, err := lease.Transfer(t.Context())
			require.NoError(t, err, "link %d: nodes that kept the lease: %v, nodes that held it: %v", i, kept, held)
			silent.Thaw()
			time.Sleep(50 * ms)
			kept = append(kept, keeping(t, net, text))
			lease, err = b.Resume(t.Context(), text)
			require.NoError(t, err)
			time.Sleep(100 * ms)
			held = append(held, net.Holders(lease))
		}
		require.Equal(t, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, kept)
		require.Equal(t, []int{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, held)
	})
}

// A lease that is not renewed is not renewed behind a Resume either.
func TestResumeWithoutRenewal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		_, text := transfer(t, c)
		net.Delay(ms)
		resumed, err := c.Resume(t.Context(), text)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Zero(t, net.Nodes[0].Executed("renew"))
		require.Less(t, resumed.Remaining(), 9*time.Second)
	})
}
