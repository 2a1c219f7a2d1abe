package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// An admission takes several round trips. Where these are long, compared with the node timeout of 100 ms, a short client waits for
// it: were each one to end before, no node would ever vote.
func TestShortClientsWithLongRoundTripsAdmitAllMasters(t *testing.T) {
	for _, c := range []struct {
		way  time.Duration // half of a round trip
		runs int           // after the guard until one gets the lock
	}{{5 * ms, 1}, {15 * ms, 1}, {25 * ms, 2}, {35 * ms, 2}, {45 * ms, 2}} {
		t.Run(fmt.Sprint(c.way), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Delay(c.way)
				require.ErrorIs(t, runShortClient(t, net), redlock.ErrNoQuorum)
				time.Sleep(2100 * ms)
				err := runShortClient(t, net)
				for i, node := range net.Nodes {
					require.NotEmpty(t, node.Redis.HGet(node.Record(), "nodes"), "node %d", i)
				}
				if c.runs == 2 {
					err = runShortClient(t, net)
				}
				require.NoError(t, err)
			})
		})
	}
}
