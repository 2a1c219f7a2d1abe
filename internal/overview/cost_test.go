package overview_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/planted"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Ten watchers of five masters: a pass asks each master once for each lock, and a look once for each visible one.
func TestPassTakesFiveCommandsForEachLockWhateverTheWatchers(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		const locks = 60
		for i := range locks {
			planted.Put(t, net, fmt.Sprintf("lock-%03d", i), "worker", time.Hour, 0, 1, 2, 3, 4)
		}
		counted := &counting{Client: net.Client()}
		m, stop := run(t, net, counted, overview.Options{})
		defer stop()
		for range 10 {
			defer m.Watch(overview.View{Filter: "no such name"}).Close() // nothing is visible
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Greater(t, int(counted.listings.Load()), 3)
		require.LessOrEqual(t, executed(net, "inspect"), 5*locks*int(counted.listings.Load()))

		seen := m.Watch(overview.View{})
		defer seen.Close()
		latest(t, seen, nil, time.Second)
		net.ClearLogs()
		counted.listings.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		looks := executed(net, "inspect") - 5*locks*int(counted.listings.Load())
		require.LessOrEqual(t, looks, 5*locks*6, "each second")
	})
}

// counting is a client that counts listings. It is asked name by name, as any source.
type counting struct {
	*redlock.Client
	listings atomic.Int64
}

func (c *counting) Locks(ctx context.Context, pattern string) iter.Seq2[redlock.Status, error] {
	c.listings.Add(1)
	return c.Client.Locks(ctx, pattern)
}

// A client is asked in batches: once for each lock, and for permits only where there are some.
func TestLookAsksAClientOnceForEachVisibleRow(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for i := range 20 {
			planted.Put(t, net, fmt.Sprintf("lock-%03d", i), "worker", time.Hour, 0, 1, 2)
		}
		for i := range 12 {
			planted.Put(t, net, fmt.Sprintf("jobs#%d", i), "worker", time.Hour, 0, 1, 2)
		}
		c := net.Client()
		m, stop := run(t, net, c, overview.Options{})
		defer stop()
		w := m.Watch(overview.View{})
		defer w.Close()
		s := latest(t, w, nil, 5*time.Second)
		require.Len(t, s.Rows, 21)
		jobs := rowOf(t, s, "jobs")
		require.Equal(t, "12 permits", jobs.HeldBy)
		require.Len(t, jobs.Holders, 1)
		require.Len(t, jobs.Holders[0].Slots, 12)
		require.Equal(t, "jobs#11", jobs.Holders[0].Names[11].Raw)
		net.ClearLogs()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, executed(net, "inspectslots"), 3*6, "one semaphore")
	})
}

// The permits of a semaphore come and go between passes.
func TestPermitsThatComeAndGoShowAtTheNextLook(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(redlock.WithOwnerLabel("one")), net.Client(redlock.WithOwnerLabel("two"))
		a := net.Must(c.Semaphore("jobs", 3).Acquire(t.Context(), 2))
		w, stop := watch(t, net, net.Client(), overview.View{})
		defer stop()
		s := latest(t, w, nil, 3*time.Second)
		require.Equal(t, "2 permits", rowOf(t, s, "jobs").HeldBy)
		b := net.Must(other.Semaphore("jobs", 3).Acquire(t.Context(), 1))
		s = latest(t, w, s, 1500*ms)
		jobs := rowOf(t, s, "jobs")
		require.Equal(t, "3 permits", jobs.HeldBy)
		require.Equal(t, map[string][]int{"one": slices.Sorted(slices.Values(a.Slots())), "two": b.Slots()},
			map[string][]int{jobs.Holders[0].Label: jobs.Holders[0].Slots, jobs.Holders[1].Label: jobs.Holders[1].Slots})
		require.NoError(t, a.Unlock(t.Context()))
		s = latest(t, w, s, 1500*ms)
		require.Equal(t, "1 permit", rowOf(t, s, "jobs").HeldBy)
		require.Equal(t, b.Slots(), rowOf(t, s, "jobs").Holders[0].Slots)
		require.NoError(t, b.Unlock(t.Context()))
		s = latest(t, w, s, 10*time.Second)
		require.Empty(t, s.Rows)
	})
}

// To a user without the right to look at semaphores, a lock with a slot's name is a lock.
func TestSlotStaysHeldForAUserWhoMayNotLookAtSemaphores(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes.Refuse("NOPERM no right", "inspectslots")
		planted.Put(t, net, "jobs#1", "worker", time.Hour, 0, 1, 2)
		w, stop := watch(t, net, net.Client(), overview.View{})
		defer stop()
		s := latest(t, w, nil, 2500*ms)
		for range 20 {
			require.Equal(t, overview.Held, rowOf(t, s, "jobs").State)
			s = latest(t, w, s, 250*ms)
		}
	})
}
