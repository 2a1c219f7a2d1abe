package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A set of free names waits for one more that is held. What another attempt on the same names costs
// a node grows with their number, not with its square: the node serves nobody else meanwhile.
func TestRefusedAttemptOnASetCostsAsMuchAsItsNames(t *testing.T) {
	cost := make(map[int]int)
	for _, many := range []int{8, 32} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			holder, c, d := net.Client(), testnet.ListeningClient(t, net), net.Client()
			var names []string
			for i := range many {
				names = append(names, fmt.Sprintf("n%02d", i))
			}
			held, err := holder.Mutex(names[many-1]).Lock(t.Context())
			require.NoError(t, err)
			ctx, leave := context.WithCancel(t.Context())
			go func() { _, _ = c.Multi(names).Lock(ctx) }()
			time.Sleep(100 * ms)
			n := net.Nodes[0]
			n.Set(func(n *testnet.Node) { n.Log = nil })
			_, err = d.Multi(names).TryLock(t.Context())
			require.Error(t, err)
			time.Sleep(10 * ms) // the verdict needs two nodes
			n.Set(func(n *testnet.Node) { cost[many] = len(n.Log) })
			leave()
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
	t.Logf("commands that the script calls, by the number of names: %v", cost)
	assert.LessOrEqual(t, cost[32], 5*cost[8])
}
