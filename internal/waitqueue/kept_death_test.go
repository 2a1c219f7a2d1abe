package waitqueue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Many clients die at once, each with one waiter ahead of a living one. All of them want x, which
// nobody holds from then on. Behind waiters for x alone, it is free for three seconds, and half a
// second more for each nine clients. Waiters for x and y, where y is held, add the two seconds for
// which x is kept for the first of them, and the second until the next poll.
func TestManyDeadSetsKeepAFreeNameForSeconds(t *testing.T) {
	const mutexes, sets = 3 * time.Second, 6 * time.Second
	for name, row := range map[string]struct {
		lockOf func(c *redlock.Client) *redlock.Mutex
		most   time.Duration
	}{
		"mutexes": {func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x") }, mutexes},
		"sets":    {func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"x", "y"}) }, sets},
	} {
		for _, clients := range []int{20, 1, 9}[:testnet.Tries(1, 3)] {
			t.Run(fmt.Sprintf("%d %s", clients, name), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					took := freeBehindDead(t, net, clients, row.lockOf)
					t.Logf("x was free for %v", took)
					assert.Less(t, took, row.most+time.Duration(clients/9)*500*ms)
				})
			})
		}
	}
}

// freeBehindDead returns how long the lock x is free when clients that wait for x, or for x and y,
// have died ahead of a waiter that lives.
func freeBehindDead(t *testing.T, net *testnet.Net, clients int, lockOf func(c *redlock.Client) *redlock.Mutex) time.Duration {
	holder, c := net.Client(), testnet.ListeningClient(t, net)
	y, err := holder.Mutex("y").Lock(t.Context())
	require.NoError(t, err)
	x, err := holder.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var dead []*testnet.Cuttable
	for range clients {
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
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, y.Unlock(t.Context()))
	return took
}
