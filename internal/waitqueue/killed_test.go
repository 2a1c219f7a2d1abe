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
