package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Another program puts a list in the place of one key of a set. The release frees the other names, and
// hands them to their waiters.
func TestReleaseOfASetFreesItsNamesBesideAKeyOfAnotherType(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := net.Client(), testnet.ListeningClient(t, net)
		set, err := c.Multi([]string{"a", "b", "c"}).Lock(t.Context())
		require.NoError(t, err)
		entered := map[string]chan *redlock.Lease{"a": make(chan *redlock.Lease, 1), "c": make(chan *redlock.Lease, 1)}
		for name, got := range entered {
			go func() {
				if lease, err := d.Mutex(name).Lock(t.Context()); assert.NoError(t, err) {
					got <- lease
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:b")
			_, err := n.Redis.Lpush("redlock:b", "of another program")
			require.NoError(t, err)
		}
		_ = set.Unlock(t.Context())
		began := time.Now()
		for _, name := range []string{"a", "c"} {
			lease := <-entered[name]
			assert.Less(t, time.Since(began), time.Second/2, name)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// The same of a waiter that leaves: it leaves the queues of all names.
func TestWaiterForASetLeavesItsQueuesBesideAKeyOfAnotherType(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := net.Client(), testnet.ListeningClient(t, net)
		c0, err := c.Mutex("c").Lock(t.Context())
		require.NoError(t, err)
		failed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := d.Multi([]string{"a", "b", "c"}).Lock(ctx)
			failed <- err
		}()
		time.Sleep(500 * time.Millisecond)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:b") // it is reserved
			_, err := n.Redis.Lpush("redlock:b", "of another program")
			require.NoError(t, err)
		}
		require.ErrorIs(t, <-failed, redlock.ErrNoQuorum)
		time.Sleep(100 * time.Millisecond)
		for _, n := range net.Nodes {
			for _, key := range n.Keys() {
				assert.NotContains(t, key, "redlock::queue", "node %d", n.Index)
				assert.NotContains(t, key, "redlock::wants", "node %d", n.Index)
			}
		}
		require.NoError(t, c0.Unlock(t.Context()))
	})
}
