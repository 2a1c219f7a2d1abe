package redlocktest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestHoldersAreToldAtEmbeddedNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := openClient(t, nodes)
	lease, err := client.Mutex("x", redlock.WithWanted()).Lock(t.Context())
	require.NoError(t, err)
	next := make(chan error, 1)
	go func() {
		next <- client.Mutex("x").Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil })
	}()
	<-lease.Wanted()
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, <-next)
}
