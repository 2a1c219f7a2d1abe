package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/operate"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Long names make smaller batches: votes wait behind them. Each batch has one name at least.
func TestBatchesAreBoundedByNamesAndBytes(t *testing.T) {
	for length, want := range map[int]int{1: 50, 50: 41, 1000: 6, 10_000: 1, 100_000: 1} {
		names := slices.Repeat([]string{strings.Repeat("x", length)}, 200)
		all := operate.Batches(names)
		require.Len(t, all[0], want, "names of %d bytes", length)
		require.Equal(t, names, slices.Concat(all...))
	}
	require.Empty(t, operate.Batches(nil))
}

// A server looks at 256 keys for each semaphore: few are asked for at a time, and each once.
func TestLocksAsksForFewSemaphoresAtATime(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		const semaphores = 2*operate.BatchSemaphores + 1
		for _, n := range net.Nodes {
			for k := range semaphores {
				_, err := n.Redis.ZAdd(protocol.Key("slots", fmt.Sprintf("redlock:%d", k)), 0, "0123456789012345-AAAAAAAAAAAAAAAA-0000000001/3*1")
				require.NoError(t, err)
			}
		}
		shown := 0
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			require.Equal(t, 3, s.Queue[0].Limit)
			if shown++; shown == 1 {
				require.Equal(t, 3*operate.BatchSemaphores, executed(net, "inspectslots"))
			}
		}
		require.Equal(t, semaphores, shown)
		require.Equal(t, 3*semaphores, executed(net, "inspectslots"))
		require.Zero(t, executed(net, "inspect"), "nothing stands for locks of these names")
	})
}
