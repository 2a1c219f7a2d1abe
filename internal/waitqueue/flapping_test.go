package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client's subscriptions break at all nodes again and again, as behind a proxy that ends connections. It wants
// what others share, and each of them holds its part for two seconds. Its turn comes when those before it have left:
// nobody passes it.
func TestWaiterWhoseSubscriptionsBreakIsNotPassedForEver(t *testing.T) {
	shares := func(n int) func(c *redlock.Client) locks {
		return func(c *redlock.Client) locks {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 6).Acquire(ctx, n) }
		}
	}
	for name, kinds := range map[string]struct{ wants, others func(c *redlock.Client) locks }{
		"a writer among readers": {
			func(c *redlock.Client) locks { return c.RWMutex("x").Lock },
			func(c *redlock.Client) locks { return c.RWMutex("x").RLock },
		},
		"all permits": {shares(6), shares(1)},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c, pools := net.CuttableClient()
				subscribe(t, c)
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range 4 {
					other := net.Client()
					for i := range 20 {
						all.Go(func() {
							time.Sleep(time.Duration(i) * 50 * ms)
							for ctx.Err() == nil {
								if lease, err := kinds.others(other)(ctx); err == nil {
									time.Sleep(2 * time.Second)
									_ = lease.Unlock(t.Context())
								}
							}
						})
					}
				}
				time.Sleep(3 * time.Second)
				all.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(970 * ms) // not in step with the leases, as nothing is
						for _, p := range pools {
							p.BreakLast() // its subscription
						}
					}
				})
				limit, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				var lease *redlock.Lease
				var err error
				took := testnet.Elapsed(func() { lease, err = kinds.wants(c)(limit) })
				t.Log(took)
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				end()
				all.Wait()
				require.NoError(t, err)
			})
		})
	}
}
