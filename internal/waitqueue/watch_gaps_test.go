package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Schedules in which those that a hand-off told are not those that must look.

// A set dies with its machine as it gets the locks. Those that wait for either of its names look.
func TestHandOffToADeadSetIsWatchedAtAllOfItsNames(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			both := []string{"a", "b"}
			held, err := net.Client().Multi(both).Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // it has all nodes
			ctx, leave := context.WithCancel(t.Context())
			c, pools := net.CuttableClient()
			subscribe(t, c)
			waits(ctx, c.Multi(both).Lock)
			next := waits(ctx, testnet.ListeningClient(t, net).Mutex(name).Lock)
			time.Sleep(time.Second)
			testnet.Hold(pools, true)
			held = handsOver(t, held, next, 1500*ms, name)
			leave()
			require.NoError(t, held.Unlock(t.Context()))
			testnet.Hold(pools, false)
			time.Sleep(2 * time.Second)
		})
	}
}

// Thirteen clients wait, and seven are served. Then it is the turn of a dead one. All behind it are dead but one, which the
// node did not tell to look at the first hand-off. It told that one later, when half of those that it had told were served.
func TestHandOffIsWatchedThoughThoseThatWereToldAreServedOrDead(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var cuts []func(bool)
		var next <-chan *redlock.Lease
		for _, what := range "qqqqqqqxxnxxx" {
			switch what {
			case 'q': // is served, and quick
				c := testnet.ListeningClient(t, net)
				all.Go(func() {
					if l, err := c.Mutex("x").Lock(ctx); err == nil {
						time.Sleep(5 * ms)
						_ = l.Unlock(t.Context())
					}
				})
				time.Sleep(5 * ms)
			case 'x': // will be cut off
				cuts = append(cuts, cutOff(t, net, ctx))
			case 'n': // is to be the next
				next = waits(ctx, testnet.ListeningClient(t, net).Mutex("x").Lock)
			}
		}
		time.Sleep(time.Second)
		for _, cut := range cuts {
			cut(true)
		}
		held = handsOver(t, held, next, 2500*ms)
		leave()
		require.NoError(t, held.Unlock(t.Context()))
		for _, cut := range cuts {
			cut(false)
		}
		all.Wait()
		time.Sleep(2 * time.Second)
	})
}

// A permit becomes free, too few for those that wait for two, and a tenth of a second later another one. The first waiter
// and the last are dead.
func TestReleaseThatFreesEnoughIsWatchedBehindOneThatFreedTooFew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		acquire := func(c *redlock.Client, n int) func(ctx context.Context) (*redlock.Lease, error) {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 2).Acquire(ctx, n) }
		}
		var held [2]*redlock.Lease
		for i := range held {
			var err error
			held[i], err = acquire(net.Client(), 1)(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait() // they have all nodes
		ctx, leave := context.WithCancel(t.Context())
		var pools []*testnet.Cuttable
		dies := func() {
			c, its := net.CuttableClient()
			subscribe(t, c)
			pools = append(pools, its...)
			waits(ctx, acquire(c, 2))
		}
		dies()
		next := waits(ctx, acquire(testnet.ListeningClient(t, net), 2))
		dies()
		time.Sleep(time.Second)
		testnet.Hold(pools, true)
		require.NoError(t, held[0].Unlock(t.Context()))
		time.Sleep(100 * ms)
		got := handsOver(t, held[1], next, 1500*ms)
		leave()
		require.NoError(t, got.Unlock(t.Context()))
		testnet.Hold(pools, false)
		time.Sleep(2 * time.Second)
	})
}
