package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testnet"
)

func TestReadersHoldTogetherAndWritersAlone(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().RWMutex("x"), net.Client().RWMutex("x")
		first, err := a.RLock(t.Context())
		require.NoError(t, err)
		second, err := b.RLock(t.Context())
		require.NoError(t, err)
		require.True(t, first.Shared())
		require.Equal(t, first.Token(), second.Token(), "they hold the lock together")

		_, err = b.TryLock(t.Context())
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Shared)
		require.Empty(t, held.Holder)
		require.Positive(t, held.Remaining)
		require.ErrorContains(t, err, "held by readers")

		require.NoError(t, first.Unlock(t.Context()))
		_, err = a.TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "the second reader holds it")
		require.NoError(t, second.Unlock(t.Context()))

		writer, err := a.TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, writer.Shared())
		require.Greater(t, writer.Token(), second.Token())
		_, err = b.TryRLock(t.Context())
		require.ErrorAs(t, err, &held)
		require.Equal(t, writer.Owner(), held.Holder)
		require.False(t, held.Shared)
		require.NoError(t, writer.Unlock(t.Context()))

		after, err := b.TryRLock(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, after.Token(), writer.Token())
		require.NoError(t, after.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestDowngradeLetsReadersInAndKeepsWritersOut(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().RWMutex("x"), net.Client().RWMutex("x")
		writer, err := a.Lock(t.Context())
		require.NoError(t, err)
		entered := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := b.RLock(context.Background())
			if err == nil {
				entered <- lease
			}
		}()
		time.Sleep(time.Second)
		require.Empty(t, entered)

		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		synctest.Wait()
		reader := <-entered
		require.GreaterOrEqual(t, reader.Token(), writer.Token())
		_, err = b.TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		time.Sleep(time.Minute)
		require.True(t, writer.Valid(), "it goes on to renew itself")
		require.NoError(t, writer.Unlock(t.Context()))
		require.True(t, reader.Valid())
		require.NoError(t, reader.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
