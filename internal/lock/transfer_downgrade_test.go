package lock_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A lease that became shared when the caller of Transfer had already been told that it is not:
// nothing happens to it.
func TestSharedLeaseIsNotTransferred(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		l, err := c.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Downgrade(t.Context()))
		ballot := testhook.Exclusive(c.Mutex("x")).NewTransfer()
		_, e, err := testhook.Handle(l).Transfer(t.Context(), ballot)
		require.ErrorIs(t, err, lease.ErrShared)
		require.Zero(t, e)
		require.NoError(t, l.Err())
		require.Zero(t, net.Nodes[0].Executed("transfer"))
	})
}

// Downgrade and Transfer of one lease at the same time: one of them does what it is for, and the
// lease is not lost.
func TestDowngradeBesideATransfer(t *testing.T) {
	var downgraded, handed int
	for range 50 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			l, err := c.RWMutex("x").Lock(t.Context())
			require.NoError(t, err)
			var both sync.WaitGroup
			both.Go(func() {
				if err := l.Downgrade(t.Context()); err == nil {
					downgraded++
				} else {
					assert.ErrorIs(t, err, redlock.ErrTransferred)
				}
			})
			var text string
			var failed error
			both.Go(func() { text, failed = l.Transfer(t.Context()) })
			both.Wait()
			switch {
			case failed == nil:
				handed++
				l, err = c.Resume(t.Context(), text)
				require.NoError(t, err)
			default:
				require.ErrorIs(t, failed, redlock.ErrConfig)
				require.NoError(t, l.Err())
				require.True(t, l.Shared())
			}
			require.False(t, errors.Is(l.Unlock(t.Context()), redlock.ErrLost))
		})
	}
	t.Logf("%d downgrades, %d transfers", downgraded, handed)
	require.Equal(t, 50, downgraded+handed)
}
