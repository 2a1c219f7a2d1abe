package redlockotel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestReadersHaveSpansAndMetricsOfTheirOwn(t *testing.T) {
	b := start(t)
	m := b.client.RWMutex("x")
	writer, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, writer.Downgrade(t.Context()))
	reader, err := m.RLock(t.Context())
	require.NoError(t, err)
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
	second, err := m.TryRLock(t.Context())
	require.NoError(t, err)
	for _, lease := range []*redlock.Lease{writer, reader, second} {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	alone, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, alone.Unlock(t.Context()))
	require.NoError(t, b.client.Close())

	for op, shared := range map[string]string{"lock": "false", "downgrade": "true", "rlock": "true", "tryrlock": "true"} {
		spans := b.spans(t, "redlock "+op)
		require.NotEmpty(t, spans, op)
		has := attributes(spans[0].Attributes)
		require.Equal(t, op, has["redlock.operation.name"])
		require.Equal(t, shared, has["redlock.lease.shared"], op)
		n, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", op)
		require.Equal(t, uint64(len(spans)), n)
	}
	require.NotContains(t, attributes(b.spans(t, "redlock trylock")[0].Attributes), "redlock.lease.shared", "it got no lease")
	unlocks := b.spans(t, "redlock unlock")
	require.Equal(t, "true", attributes(unlocks[0].Attributes)["redlock.lease.shared"], "it was downgraded")
	require.Equal(t, "false", attributes(unlocks[3].Attributes)["redlock.lease.shared"])
	for shared, want := range map[string]uint64{"true": 3, "false": 1} {
		n, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.outcome", "released", "redlock.lease.shared", shared)
		require.Equal(t, want, n)
	}
}
