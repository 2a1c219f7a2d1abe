package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestSlowHookDoesNotDelayTheEndOfALease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		over := make(chan struct{})
		defer close(over)
		slow := &redlock.Trace{Lease: func(redlock.LeaseEvent) { <-over }}
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithTrace(slow))
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := c.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.Nodes {
			n.Down()
		}
		for _, lease := range []*redlock.Lease{first, second} {
			left := lease.Remaining()
			require.Equal(t, left, testnet.Elapsed(func() { <-lease.Done() }))
		}
	})
}
