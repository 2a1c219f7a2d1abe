package lease_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestContextOfALeaseIsForgottenWhenItIsCancelled(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, cancel := lease.Context(t.Context())
		require.Equal(t, 1, testhook.Lease(lease).AtEndLen())
		cancel()
		require.Zero(t, testhook.Lease(lease).AtEndLen())
	})
}

func TestContextOfALeaseIsForgottenWhenItsParentEnds(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ended, end := context.WithCancel(t.Context())
		end()
		ctx, cancel := lease.Context(ended)
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.Zero(t, testhook.Lease(lease).AtEndLen(), "its parent had ended before")

		living, cancel := lease.Context(t.Context())
		defer cancel()
		for range 10_000 {
			request, end := context.WithCancel(t.Context())
			_, cancel := lease.Context(request)
			defer cancel()
			end()
		}
		require.Less(t, testhook.Lease(lease).AtEndLen(), 100)
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, context.Cause(living), redlock.ErrReleased, "one whose parent lives is not forgotten")
	})
}
