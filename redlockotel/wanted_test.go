package redlockotel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestAskIsAnOperation(t *testing.T) {
	b := start(t)
	lease, err := b.client.Mutex("x", redlock.WithWanted()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.client.Ask(t.Context(), "x"))
	<-lease.Wanted()
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, b.client.Close())
	require.Len(t, b.spans(t, "redlock ask"), 1)
	n, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", "ask")
	require.Equal(t, uint64(1), n)
}
