package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Processes are killed while their clients join the queue, at one instant after the other. An attempt may reach a
// node after the end of its client's subscription. The next caller does not count those that are dead as ahead of
// it, and looks soon.
func TestWaitersKilledWhileTheyJoinDelayTheNextCallerForAboutASecond(t *testing.T) {
	for after := time.Duration(0); after <= 6*ms; after += ms / 2 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			net.Delay(ms / 2)
			held, err := net.Client().Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			var killed []*testnet.Cuttable
			for range 27 {
				c, pools := net.CuttableClient()
				killed = append(killed, pools...)
				go func() { _, _ = c.Mutex("x").Lock(ctx) }()
			}
			time.Sleep(after)
			testnet.Kill(killed)
			defer testnet.Hold(killed, false)
			next := queued(t.Context(), net.Client().Mutex("x"))
			time.Sleep(20 * ms)
			require.NoError(t, held.Unlock(t.Context()))
			took := testnet.Elapsed(func() {
				lease := <-next
				defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
			})
			require.Less(t, took, 2*time.Second, after)
		})
	}
}
