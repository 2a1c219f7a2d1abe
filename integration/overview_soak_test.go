package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/overview"
)

// A view of ten thousand locks for ten watchers, where a hundred locks change each second: a twentieth of a core, and five
// commands for each lock and pass. The changes are another process's.
func TestSoakTenWatchersOfManyLocksCostATwentiethOfACore(t *testing.T) {
	soakOnly(t)
	const names, changing, maxShare, lasts = 9_000, 1_000, 0.05, time.Minute
	nodes := cluster.Use(t, 5)
	for _, n := range nodes {
		holdOwnNames(t, n, names)
	}
	changes := startWorker(t, "changes", strings.Join(nodes.URLs(), ","), fmt.Sprint(changing))
	require.Equal(t, "ready", <-changes.lines)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)

	m := overview.New(client, overview.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { m.Run(ctx) })
	defer over.Wait()
	defer stop()
	received := make([]int, 10)
	for i := range received {
		w := m.Watch(overview.View{Order: overview.Orders()[i%5], Filter: []string{"", "-1"}[i/5]})
		defer w.Close()
		over.Go(func() {
			for {
				select {
				case <-w.Updates():
					received[i]++
				case <-ctx.Done():
					return
				}
			}
		})
	}
	s, err := m.Snapshot(t.Context(), overview.View{})
	require.NoError(t, err)
	require.InDelta(t, names+changing, s.Counts.Locks, 20)
	t.Logf("the first pass took %v", s.Took)
	for _, n := range nodes {
		n.Do(t, "CONFIG", "RESETSTAT")
	}
	began, before := time.Now(), processTime(t)
	time.Sleep(lasts)
	share := (processTime(t) - before).Seconds() / time.Since(began).Seconds()
	for i, n := range nodes {
		t.Logf("node %d: %s", i, commandStats(t, n))
	}
	s, err = m.Snapshot(t.Context(), overview.View{})
	require.NoError(t, err)
	stop()
	over.Wait()
	t.Logf("%.2f %% of a core; the last pass took %v; snapshots: %v", 100*share, s.Took, received)
	assert.LessOrEqual(t, share, maxShare)
}

// holdOwnNames puts keys of so many locks at a node, each with an owner of its own.
func holdOwnNames(t *testing.T, n *cluster.Node, names int) {
	t.Helper()
	const script = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'redlock:held-' .. i, string.format('ABCDEFGHIJK%08d2ABCDEF@web-%d:17', i, i % 50), 'PX', 3600000) end"
	const atOnce = 1000
	for i := 0; i < names; i += atOnce {
		n.Do(t, "EVAL", script, 0, i, i+atOnce-1)
	}
}

// makeChanges is the job of a process that acquires so many locks, and then releases one and acquires one, a hundred
// changes in a second, until its input ends.
func makeChanges(args []string, lines <-chan string, say func(string, ...any)) error {
	client, err := redlock.Open(strings.Split(args[0], ","), redlock.WithTTL(time.Hour), redlock.WithoutRenewal(), redlock.WithLogger(nil),
		redlock.WithRestartGuard(0))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := untilInputEnds(lines)
	defer cancel()
	var many int
	if _, err := fmt.Sscan(args[1], &many); err != nil {
		return err
	}
	leases := make([]*redlock.Lease, many)
	for i := range leases {
		if leases[i], err = client.Mutex(fmt.Sprintf("changing-%d", i)).Lock(ctx); err != nil {
			return err
		}
	}
	say("ready")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i = (i + 1) % many {
		<-tick.C
		if err := leases[i].Unlock(context.Background()); err != nil {
			return err
		}
		if leases[i], err = client.Mutex(fmt.Sprintf("changing-%d", i)).Lock(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// processTime returns how long this process has used a processor, in user and system mode.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
