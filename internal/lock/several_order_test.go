package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A TryLock of a free name that a set keeps is cut off before its rollback: without a right to the name, its key
// must not keep the set out for a ttl.
func TestTryLockOfAKeptNameThatIsCutOffDoesNotKeepTheSetOut(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		dying, pools := net.CuttableClient()
		b, err := holder.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		entered := make(chan error, 1)
		go func() {
			lease, err := c.Multi([]string{"a", "b"}).Lock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			entered <- err
		}()
		time.Sleep(100 * ms)
		net.Delay(5 * ms)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		go func() { _, _ = dying.Mutex("a").TryLock(ctx) }()
		time.Sleep(7 * ms) // the nodes have set the key; the answers are on their way
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		require.NoError(t, b.Unlock(t.Context()))
		began := time.Now()
		require.NoError(t, <-entered)
		assert.Less(t, time.Since(began), 3*time.Second)
	})
}
