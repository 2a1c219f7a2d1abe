package holder_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What the client keeps to recognize messages goes with each attempt and lease.
func TestClientForgetsWhatItIsNotToldOfAnyMore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithWanted()), net.Client()
		held := net.Must(b.Mutex("x").Lock(t.Context()))
		net.Held(a.Mutex("x").TryLock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		net.Held(a.Mutex("x").Lock(ctx))
		holders := &testhook.Engine(a).Board().Wanted
		require.Zero(t, holders.Len())
		require.NoError(t, held.Unlock(t.Context()))
		first := net.Must(a.Mutex("x").Lock(t.Context()))
		second := net.Must(a.Mutex("y").TryLock(t.Context()))
		require.Equal(t, 2, holders.Len())
		text := net.Text(first.Transfer(t.Context()))
		require.Equal(t, 1, holders.Len())
		third := net.Must(a.Resume(t.Context(), text))
		require.Equal(t, 2, holders.Len())
		require.NoError(t, third.Unlock(t.Context()))
		_, err := a.Resume(t.Context(), text)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, 1, holders.Len())
		require.NoError(t, a.Close())
		require.ErrorIs(t, second.Err(), redlock.ErrClosed)
		require.Zero(t, holders.Len())
	})
}
