package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Two clients take turns at one lock, and one of them has 5 000 callers of TryLock beside that. Its connections are first
// in, first out: the limiter keeps the nodes' queues short, so that the turns go on.
func TestSoakTurnsGoOnBesideCallersOfTryLock(t *testing.T) {
	soakOnly(t)
	nodes := cluster.Use(t, 5)
	clients := []*redlock.Client{openClient(t, nodes.URLs()), openClient(t, nodes.URLs())}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var tried atomic.Int64
	for i := range 5000 {
		all.Go(func() {
			m := clients[0].Mutex(fmt.Sprint("other-", i))
			for ctx.Err() == nil {
				if lease, err := m.TryLock(ctx); err == nil {
					assert.NoError(t, lease.Unlock(t.Context()))
				}
				tried.Add(1)
			}
		})
	}
	waits := make([][]time.Duration, 2)
	for i, c := range clients {
		all.Go(func() {
			m := c.Mutex("turns")
			for {
				began := time.Now()
				lease, err := m.Lock(ctx)
				if err != nil {
					return
				}
				waits[i] = append(waits[i], time.Since(began))
				assert.NoError(t, lease.Unlock(t.Context()))
			}
		})
	}
	all.Wait()
	turns := len(waits[0]) + len(waits[1])
	longest := slices.Max(slices.Concat(waits...))
	t.Logf("%d and %d turns in 10 s, the longest wait %v, beside %d TryLocks", len(waits[0]), len(waits[1]), longest, tried.Load())
	require.GreaterOrEqual(t, turns, 1500)
	require.LessOrEqual(t, longest, 300*time.Millisecond)
}
