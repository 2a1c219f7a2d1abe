package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testnet"
)

// A caller that holds the lock exclusively takes a share under it, and then unlocks the exclusive lease: the idiom
// by which other libraries downgrade.
func TestShareTakenUnderAnExclusiveLeaseIsSharedWhenThatIsUnlocked(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		lock := c.RWMutex("x", redlock.WithReentry())
		outer, err := lock.Lock(t.Context())
		require.NoError(t, err)
		under, cancel := outer.Context(t.Context())
		defer cancel()
		second, err := lock.Lock(under)
		require.NoError(t, err)
		share, err := lock.RLock(under)
		require.NoError(t, err)
		require.False(t, share.Shared(), "the exclusive leases are held")
		asReader, stop := share.Context(t.Context())
		defer stop()
		_, holds := c.Mutex("x").Held(asReader)
		require.False(t, holds, "the share stays when the exclusive leases end")
		entered := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := other.RWMutex("x").RLock(t.Context())
			require.NoError(t, err)
			entered <- lease
		}()
		time.Sleep(time.Second)
		require.NoError(t, outer.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		require.False(t, share.Shared(), "one of them still is")
		require.Empty(t, entered)

		began := time.Now()
		require.NoError(t, second.Unlock(t.Context()))
		require.True(t, share.Shared())
		reader := <-entered
		require.Less(t, time.Since(began), 100*ms)
		beside, cancel := share.Context(t.Context())
		defer cancel()
		_, err = lock.TryLock(beside)
		require.ErrorIs(t, err, redlock.ErrHeld, "there is no upgrade")
		_, err = other.RWMutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		time.Sleep(15 * time.Second)
		require.True(t, share.Valid())
		require.NoError(t, reader.Unlock(t.Context()))
		require.NoError(t, share.Unlock(t.Context()))
		synctest.Wait()
		writer, err := other.RWMutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, writer.Unlock(t.Context()))
	})
}
