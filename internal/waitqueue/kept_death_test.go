package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testnet"
)

// Twenty clients die at once, each with one waiter ahead of a living one. All of them want x, which
// nobody holds from then on. It is free for three seconds and half a second for each nine clients that
// died, be they waiters for x alone or for x and y.
func TestManyDeadSetsDelayAWaiterNoLongerThanManyDeadMutexes(t *testing.T) {
	for name, lockOf := range map[string]func(c *redlock.Client) *redlock.Mutex{
		"mutexes": func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x") },
		"sets":    func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"x", "y"}) },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, c := net.Client(), testnet.ListeningClient(t, net)
				y, err := holder.Mutex("y").Lock(t.Context())
				require.NoError(t, err)
				x, err := holder.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				var dead []*testnet.Cuttable
				for range 20 {
					dying, pools := net.CuttableClient()
					dead = append(dead, pools...)
					queued(ctx, lockOf(dying))
				}
				next := queued(t.Context(), c.Mutex("x"))
				time.Sleep(10 * time.Second)
				testnet.Hold(dead, true)
				defer testnet.Hold(dead, false)
				require.NoError(t, x.Unlock(t.Context()))
				began := time.Now()
				lease := <-next
				took := time.Since(began)
				t.Logf("x was free for %v", took)
				assert.Less(t, took, 7*time.Second)
				require.NoError(t, lease.Unlock(t.Context()))
				require.NoError(t, y.Unlock(t.Context()))
			})
		})
	}
}
