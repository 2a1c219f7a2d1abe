package waitqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The machines of the first clients in the queue are cut off, and the nodes count their subscriptions as standing. A
// lock is handed to one after the other of them, until the next live one looks. Neither their number nor that of their
// waiters matters much.
func TestHandOffToClientsThatAreCutOffDelaysTheNextForSeconds(t *testing.T) {
	mutex := func(c *redlock.Client) locks { return c.Mutex("x").Lock }
	reader := func(c *redlock.Client) locks { return c.RWMutex("x").RLock }
	set := func(c *redlock.Client) locks { return c.Multi([]string{"x", "y"}).Lock }
	permit := func(c *redlock.Client) locks {
		return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 1).Acquire(ctx, 1) }
	}
	for name, kinds := range map[string]struct{ held, cut, next func(c *redlock.Client) locks }{
		"a mutex":                 {mutex, mutex, mutex},
		"the only permit":         {permit, permit, permit},
		"a reader behind writers": {mutex, mutex, reader},
		"a set":                   {set, set, set},
	} {
		for _, row := range []struct {
			clients, waiters int
			most             time.Duration
		}{{9, 1, 5 * time.Second}, {9, 20, 5 * time.Second}, {20, 1, 6 * time.Second},
			{1, 1, 3 * time.Second}, {1, 100, 3 * time.Second}} {
			t.Run(fmt.Sprintf("%s, %d clients with %d waiters", name, row.clients, row.waiters), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					next := testnet.ListeningClient(t, net)
					held, err := kinds.held(net.Client())(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					ctx, leave := context.WithCancel(t.Context())
					var all []*testnet.Cuttable
					var callers sync.WaitGroup
					for range row.clients {
						c, pools := net.CuttableClient()
						all = append(all, pools...)
						for range row.waiters {
							callers.Go(func() { _, _ = kinds.cut(c)(ctx) })
						}
						time.Sleep(10 * ms)
					}
					entered := waitFor(t.Context(), kinds.next(next))
					time.Sleep(3 * time.Second)
					testnet.Hold(all, true)
					took := testnet.Elapsed(func() {
						assert.NoError(t, held.Unlock(t.Context()))
						held = <-entered
					})
					testnet.Hold(all, false)
					leave()
					callers.Wait()
					t.Log(took)
					assert.Less(t, took, row.most)
					require.NoError(t, held.Unlock(t.Context()))
				})
			})
		}
	}
}
