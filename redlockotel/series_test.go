package redlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlockotel"
)

// maxSeries is how many time series a client of five nodes has at most, as Prometheus counts them: a histogram has
// one for each bound, and three. Two hundred processes have two hundred times as many.
const maxSeries = 600

func TestAClientOfFiveNodesHasFewSeries(t *testing.T) {
	b := startOver(t, 5)
	allKindsOfCalls(t, b)
	require.NoError(t, b.client.Close())
	n, names := series(b.collect(t))
	t.Logf("%d series: %v", n, names)
	require.Greater(t, n, 300)
	require.LessOrEqual(t, n, maxSeries)
	for name := range names {
		require.False(t, strings.HasSuffix(name, ".count"), "Prometheus takes %s for a part of a histogram", name)
	}
}

// series returns the number of time series, and those of each metric.
func series(all metricdata.ResourceMetrics) (n int, names map[string]int) {
	names = map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					names[m.Name] += len(point.Bounds) + 3
				}
			case metricdata.Sum[int64]:
				names[m.Name] += len(data.DataPoints)
			}
			n += names[m.Name]
		}
	}
	return n, names
}

// allKindsOfCalls makes calls of each kind: granted, refused, waited for, given up, lost, and without a quorum.
func allKindsOfCalls(t *testing.T, b *bench) {
	ctx, c := t.Context(), b.client
	unlocked := func(lease *redlock.Lease, err error) {
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(ctx))
	}
	unlocked(c.Mutex("a").Lock(ctx))
	unlocked(c.Mutex("a").TryLock(ctx))
	unlocked(c.Multi([]string{"a", "b"}).Lock(ctx))
	unlocked(c.RWMutex("rw").RLock(ctx))
	unlocked(c.RWMutex("rw").TryRLock(ctx))
	unlocked(c.Semaphore("s", 2).Acquire(ctx, 1))
	unlocked(c.Semaphore("s", 2).TryAcquire(ctx, 2))

	lease, err := c.Mutex("a").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Extend(ctx))
	_, err = c.Mutex("a").TryLock(ctx)
	require.ErrorIs(t, err, redlock.ErrHeld)
	_, err = c.Mutex("a").Lock(b.untilQueued(t, "a"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Ask(ctx, "a"))
	text, err := lease.Transfer(ctx)
	require.NoError(t, err)
	unlocked(c.Resume(ctx, text))
	require.Error(t, lease.Extend(ctx), "it is transferred")

	lease, err = c.RWMutex("rw").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Downgrade(ctx))
	require.NoError(t, lease.Unlock(ctx))
	require.NoError(t, c.Ping(ctx))
	lease, err = c.Mutex("lost").Lock(ctx)
	require.NoError(t, err)
	_, err = c.ForceUnlock(ctx, "lost")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return errors.Is(lease.Extend(ctx), redlock.ErrLost) }, 10*time.Second, 10*time.Millisecond)
	for i := range 3 {
		b.nodes.Stop(i)
	}
	_, err = c.Mutex("a").TryLock(ctx)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, c.Ping(ctx), redlock.ErrNoQuorum)
}

func TestNamesInMetricsAreBounded(t *testing.T) {
	b := start(t, redlockotel.WithNameAttribute(func(name string) string { return "kind-" + name }))
	for i := range 103 {
		lease, err := b.client.Mutex(fmt.Sprint(i)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.NoError(t, b.client.Close())
	for name, want := range map[string]uint64{"kind-0": 1, "kind-99": 1, "kind-100": 0, "other": 3} {
		n, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.lock.name", name)
		require.Equal(t, want, n, name)
	}
}
