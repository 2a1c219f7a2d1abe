package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/testhook"
	"github.com/redlock-go/redlock/internal/testnet"
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
