package waitqueue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// All names of a set become free, one after the other, while callers of TryLock ask for each of
// them again and again. Each of these sets the key, sees the queue, and gives the key back a trip later. None of
// them may get a name, since the set waits; so the set must get them.
func TestSetGetsItsFreeNamesThoughCallersTryThemAgainAndAgain(t *testing.T) {
	for _, many := range [][2]int{{2, 1}, {12, 1}, {8, 4}}[:testnet.Tries(2, 3)] {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, c := net.Client(), testnet.ListeningClient(t, net)
				var names []string
				for i := range many[0] {
					names = append(names, fmt.Sprintf("n%02d", i))
				}
				held, err := holder.Mutex(names[0]).Lock(t.Context())
				require.NoError(t, err)
				net.Delay(5 * ms)
				set := queued(t.Context(), c.Multi(names))
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var got, refused atomic.Int64
				for i := range many[0] * many[1] {
					m := net.Client().Mutex(names[i%many[0]])
					time.Sleep(ms)
					all.Go(func() { tryAgainAndAgain(ctx, m, &got, &refused) })
				}
				time.Sleep(time.Second)
				began := time.Now()
				require.NoError(t, held.Unlock(t.Context()))
				var lease *redlock.Lease
				select {
				case lease = <-set:
				case <-time.After(5 * time.Second):
				}
				t.Logf("the set has its names after %v; %d TryLocks were granted, %d refused", time.Since(began), got.Load(), refused.Load())
				assert.Less(t, time.Since(began), 3*time.Second)
				stop()
				all.Wait()
				if lease == nil {
					lease = <-set
				}
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// tryAgainAndAgain asks for a lock until ctx ends, with pauses of 10 ms.
func tryAgainAndAgain(ctx context.Context, m *redlock.Mutex, got, refused *atomic.Int64) {
	for ctx.Err() == nil {
		if lease, err := m.TryLock(ctx); err == nil {
			got.Add(1)
			_ = lease.Unlock(context.Background())
		} else {
			refused.Add(1)
		}
		time.Sleep(10 * ms)
	}
}
