package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The server knows at once that a process is gone. However many of them wait, the next caller has the lock when its holder
// releases it.
func TestKilledWaitersDoNotDelayTheNextCaller(t *testing.T) {
	mutex := func(c *redlock.Client) locks { return c.Mutex("x").Lock }
	set := func(c *redlock.Client) locks { return c.Multi([]string{"x", "y"}).Lock }
	reader := func(c *redlock.Client) locks { return c.RWMutex("x").RLock }
	permits := func(n int) func(c *redlock.Client) locks {
		return func(c *redlock.Client) locks {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 2).Acquire(ctx, n) }
		}
	}
	for name, kinds := range map[string]struct{ held, dies, wants func(c *redlock.Client) locks }{
		"mutexes":                 {mutex, mutex, mutex},
		"sets":                    {set, set, set},
		"a mutex behind sets":     {mutex, set, mutex},
		"a reader behind writers": {mutex, mutex, reader},
		"a writer behind readers": {mutex, reader, mutex},
		"one permit":              {permits(2), permits(2), permits(1)},
		"all permits":             {permits(2), permits(1), permits(2)},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				held, err := kinds.held(net.Client())(t.Context())
				require.NoError(t, err)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				var killed []*testnet.Cuttable
				for range 54 {
					c, pools := net.CuttableClient()
					killed = append(killed, pools...)
					waitFor(ctx, kinds.dies(c))
				}
				next := waitFor(t.Context(), kinds.wants(net.Client()))
				testnet.Kill(killed)
				defer testnet.Hold(killed, false)
				time.Sleep(ms)
				require.NoError(t, held.Unlock(t.Context()))
				took := testnet.Elapsed(func() {
					lease := <-next
					defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
				})
				require.Less(t, took, 50*ms)
			})
		})
	}
}

// locks takes a lock.
type locks = func(context.Context) (*redlock.Lease, error)

// Processes are killed while their clients join the queue, at one instant after the other. An attempt may reach a
// node after the end of its client's subscription. The next caller does not count those that are dead as ahead of
// it, and looks soon.
func TestWaitersKilledWhileTheyJoinDelayTheNextCallerForAboutASecond(t *testing.T) {
	for after := time.Duration(0); after <= 6*ms; after += ms / 2 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			net.Delay(ms / 2)
			held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
					lease := net.Must(net.Client().Mutex(name).Lock(t.Context()))
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
