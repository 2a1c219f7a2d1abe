package admission_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client that reaches exactly a quorum cannot admit a node of it: the tokens of leases that the node forgot may be known
// only to a node that this client does not reach. One client that reaches q others for a moment admits it, for all.
func TestNodeIsAdmittedByAClientThatReachesAQuorumOfOthers(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		before, _ := lockWithin(t, net.Guarded(redlock.WithTTL(2*time.Second)), time.Second)
		require.NoError(t, net.Clients[0].Close())
		opts := []redlock.ClientOption{redlock.WithTTL(2 * time.Second), redlock.WithRestartGuard(time.Millisecond)}
		left, ofLeft := net.CuttableClient(opts...)
		right, ofRight := net.CuttableClient(opts...)
		away := []*testnet.Cuttable{ofLeft[2], ofRight[0]}
		testnet.Hold(away, true)
		defer testnet.Hold(away, false)
		net.Nodes[0].Restart(nil)
		for range 20 {
			token, _ := lockWithin(t, right, 5*time.Second)
			require.Greater(t, token, before)
			before = token
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := left.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "votes again with the counters of 2 other nodes that vote (1 answered)")

		require.NoError(t, net.NewClient(opts...).Ping(t.Context()))
		time.Sleep(time.Second)
		token, _ := lockWithin(t, left, 5*time.Second)
		require.Greater(t, token, before)
	})
}
