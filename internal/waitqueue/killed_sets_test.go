package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A free lock is reserved for a waiter for several locks, which waits for another of them. Its process is killed: the
// reservation is of no use, and keeps the other lock from nobody.
func TestKilledWaitersForSetsKeepNoLockReserved(t *testing.T) {
	set := func(names ...string) func(c *redlock.Client) locks {
		return func(c *redlock.Client) locks { return c.Multi(names).Lock }
	}
	for name, kinds := range map[string]struct {
		held []string                        // released one after the other, the last one after the kill
		die  []func(c *redlock.Client) locks // in turn
		next func(c *redlock.Client) locks
	}{
		"the same names, one of them free": {
			held: []string{"x", "y"}, next: set("x", "y"),
			die: []func(c *redlock.Client) locks{set("x", "y")},
		},
		"overlapping names, one of them free": {
			held: []string{"y"}, next: set("y", "z"),
			die: []func(c *redlock.Client) locks{set("x", "y"), set("y", "z")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				var held []*redlock.Lease
				for _, name := range kinds.held {
					lease, err := net.Client().Mutex(name).Lock(t.Context())
					require.NoError(t, err)
					held = append(held, lease)
				}
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				var killed []*testnet.Cuttable
				for i := range 27 {
					c, pools := net.CuttableClient()
					killed = append(killed, pools...)
					waitFor(ctx, kinds.die[i%len(kinds.die)](c))
				}
				next := waitFor(t.Context(), kinds.next(net.Client()))
				last := len(held) - 1
				for _, lease := range held[:last] {
					require.NoError(t, lease.Unlock(t.Context()))
				}
				time.Sleep(50 * ms)
				testnet.Kill(killed)
				defer testnet.Hold(killed, false)
				time.Sleep(ms)
				require.NoError(t, held[last].Unlock(t.Context()))
				took := testnet.Elapsed(func() {
					lease := <-next
					defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
				})
				require.Less(t, took, 100*ms)
			})
		})
	}
}
