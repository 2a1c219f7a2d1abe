package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlockweb"
)

// What a view of ten thousand locks may cost ten watchers, where a hundred locks change each second: a twentieth of a core,
// in user and system mode over a minute.
const (
	heldNames, changingNames = 9_000, 1_000
	maxShare, measuredFor    = 0.05, time.Minute
)

// Ten watchers of the model alone. The changes are another process's.
func TestSoakTenWatchersOfManyLocksCostATwentiethOfACore(t *testing.T) {
	soakOnly(t)
	nodes, client := openManyLocks(t)
	m, stop := overview.Start(client, overview.Options{})
	defer stop()
	var over sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer over.Wait()
	defer cancel()
	received := make([]int, 10)
	for i := range received {
		w := m.Watch(overview.View{Order: overview.Orders()[i%5], Filter: viewFilters[i/5]})
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
	require.InDelta(t, heldNames+changingNames, s.Counts.Locks, 20)
	share := measureShare(t, nodes)
	s, err = m.Snapshot(t.Context(), overview.View{})
	require.NoError(t, err)
	cancel()
	over.Wait()
	t.Logf("%.2f %% of a core; the last pass took %v; snapshots: %v", 100*share, s.Took, received)
	assert.LessOrEqual(t, share, maxShare)
}

// Ten browsers: the model, and what the page sends to each. The browsers and the changes are other processes'.
func TestSoakTenBrowsersOfManyLocksCostATwentiethOfACore(t *testing.T) {
	soakOnly(t)
	nodes, client := openManyLocks(t)
	page := redlockweb.New(client)
	server := httptest.NewServer(page)
	defer server.Close()
	defer page.Close()
	queries := make([]string, 10)
	for i := range queries {
		queries[i] = server.URL + "/events?" + url.Values{"sort": {string(overview.Orders()[i%5])}, "filter": {viewFilters[i/5]}}.Encode()
	}
	browsers := startWorker(t, "browsers", queries...)
	require.Equal(t, "ready", <-browsers.lines)
	time.Sleep(5 * time.Second) // the first pass, and what it changes, is sent
	share := measureShare(t, nodes)
	browsers.say(t, "report")
	t.Logf("%.2f %% of a core; %s", 100*share, <-browsers.lines)
	assert.LessOrEqual(t, share, maxShare)
}

// viewFilters are the filters of the first and the second five watchers.
var viewFilters = []string{"", "-1"}

// openManyLocks returns five nodes with ten thousand locks, of which a process of its own changes some, and a client.
func openManyLocks(t *testing.T) (cluster.Nodes, *redlock.Client) {
	t.Helper()
	nodes := cluster.Use(t, 5)
	for _, n := range nodes {
		holdOwnNames(t, n, heldNames)
	}
	changes := startWorker(t, "changes", strings.Join(nodes.URLs(), ","), fmt.Sprint(changingNames))
	require.Equal(t, "ready", <-changes.lines)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	return nodes, client
}

// measureShare returns which share of a core this process uses for a minute.
func measureShare(t *testing.T, nodes cluster.Nodes) float64 {
	t.Helper()
	for _, n := range nodes {
		n.Do(t, "CONFIG", "RESETSTAT")
	}
	began, before := time.Now(), processTime(t)
	time.Sleep(measuredFor)
	share := (processTime(t) - before).Seconds() / time.Since(began).Seconds()
	for i, n := range nodes {
		t.Logf("node %d: %s", i, commandStats(t, n))
	}
	return share
}

// readStreams is the job of a process that reads streams of events, as browsers do, and reports what came when it is asked.
func readStreams(urls []string, lines <-chan string, say func(string, ...any)) error {
	var begun sync.WaitGroup
	var events, bytes atomic.Int64
	failed := make(chan error, len(urls))
	for _, url := range urls {
		begun.Add(1)
		go func() { // ends with the process
			first := sync.OnceFunc(begun.Done)
			defer first()
			got, err := http.Get(url)
			if err != nil {
				failed <- err
				return
			}
			defer got.Body.Close()
			for in := bufio.NewReader(got.Body); ; {
				line, err := in.ReadSlice('\n')
				bytes.Add(int64(len(line)))
				switch {
				case err == bufio.ErrBufferFull:
				case err != nil:
					failed <- err
					return
				case len(line) == 1: // an event ends with an empty line
					events.Add(1)
					first()
				}
			}
		}()
	}
	begun.Wait()
	say("ready")
	for range lines {
		select {
		case err := <-failed:
			return err
		default:
			say("%d events, %d bytes in all", events.Load(), bytes.Load())
		}
	}
	return nil
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
	client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[0], ","), redlock.WithTTL(time.Hour), redlock.WithoutRenewal())
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
