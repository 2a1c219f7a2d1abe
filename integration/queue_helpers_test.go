package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

const (
	// queueName is the lock for which the tests of the wait queue wait, queueKey the key of
	// its queue.
	queueName = "queue"
	queueKey  = "redlock::queue:" + prefix + queueName

	// forever is longer than any test.
	forever = time.Hour
)

// holdLock takes the lock, so that other clients must wait, and returns the function that
// releases it.
func holdLock(t *testing.T, nodes cluster.Nodes) (release func()) {
	t.Helper()
	lease, err := openClient(t, nodes.URLs()).Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// queueUp lets a client ask for the lock, and release it when it is served. The
// channel gets a value when the client is served, and is closed when it has
// released the lock.
func queueUp(t *testing.T, client *redlock.Client) (served <-chan struct{}) {
	t.Helper()
	ctx := within(t, time.Minute)
	done := make(chan struct{}, 1)
	go func() {
		defer close(done)
		lease, err := client.Mutex(queueName).Lock(ctx)
		if assert.NoError(t, err) {
			done <- struct{}{}
			assert.NoError(t, lease.Unlock(ctx))
		}
	}()
	t.Cleanup(func() {
		for range done {
		}
	})
	return done
}

// awaitQueue waits until so many waiters are in the queues of a quorum of five nodes. A
// waiter that came while the machine was busy may be missing at one more.
func awaitQueue(t *testing.T, nodes cluster.Nodes, waiters int) {
	t.Helper()
	awaitQueueOf(t, nodes, queueKey, waiters)
}

// awaitQueueOf is awaitQueue for the queues of this key.
func awaitQueueOf(t *testing.T, nodes cluster.Nodes, key string, waiters int) {
	t.Helper()
	length := 0
	eventually(soon, func() bool {
		length = queueLength(t, nodes, key)
		return length >= waiters
	})
	require.GreaterOrEqual(t, length, waiters, "the wait queue")
}

// queueLength returns the number of tickets in the queues of a quorum of five nodes.
func queueLength(t *testing.T, nodes cluster.Nodes, key string) (length int) {
	t.Helper()
	at := map[string]int{}
	for _, n := range nodes {
		tickets, err := redis.Strings(n.Do(t, "ZRANGE", key, 0, -1), nil)
		require.NoError(t, err)
		for _, ticket := range tickets {
			at[ticket]++
			if at[ticket] == 3 {
				length++
			}
		}
	}
	return length
}

// assertServedSoon expects that a waiter is served long before a ttl ends, and
// waits until it has released the lock.
func assertServedSoon(t *testing.T, served <-chan struct{}) {
	t.Helper()
	assertServedWithin(t, served, soon)
}

func assertServedWithin(t *testing.T, served <-chan struct{}, limit time.Duration) {
	t.Helper()
	start := time.Now()
	_, ok := <-served
	require.True(t, ok, "never served")
	took := time.Since(start)
	<-served
	t.Logf("served after %v", took.Round(time.Millisecond))
	assert.LessOrEqual(t, took, limit)
}

// assertNothingWaits expects that soon no lock, reservation or wait queue is left at the
// nodes, and that this stays so.
func assertNothingWaits(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	nothing := func() bool { return len(keysOfLocks(t, nodes)) == 0 }
	require.True(t, cluster.Stays(soon, nothing), "keys are left, now, by node: %v", keysOfLocks(t, nodes))
}

// keysOfLocks returns the keys of each node that has any, except the keys of its admission
// and those that show that clients live.
func keysOfLocks(t *testing.T, nodes cluster.Nodes) map[int][]string {
	t.Helper()
	all := map[int][]string{}
	for i, n := range nodes {
		keys := slices.DeleteFunc(n.Keys(t), stays)
		if len(keys) > 0 {
			all[i] = keys
		}
	}
	return all
}

// stays reports whether a key stays when no client locks.
func stays(key string) bool {
	kept := []string{"redlock::record:", "redlock::alive:", "redlock::newest", "redlock::quarantine:"}
	return slices.ContainsFunc(kept, func(start string) bool { return strings.HasPrefix(key, start) })
}

// workerTimeout is the node timeout of the processes that wait: there are so many of them
// that servers are slow without being frozen.
const workerTimeout = 1400 * time.Millisecond

// waitInQueue is the job of a process with several clients. At the line "N D", client N asks
// for the lock; when it has the lock, it appends its number to a file that all share, and
// holds for the time D.
func waitInQueue(args []string, lines <-chan string, say func(string, ...any)) error {
	file, urls := args[0], strings.Split(args[1], ",")
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clients := make(map[string]*redlock.Client)
	for _, number := range args[3:] {
		client, err := testclient.OpenInProcess(ctx, urls, redlock.WithTTL(ttl), redlock.WithNodeTimeout(workerTimeout))
		if err != nil {
			return err
		}
		defer client.Close()
		clients[number] = client
	}
	say("ready")
	var callers sync.WaitGroup
	for line := range lines {
		number, hold, _ := strings.Cut(line, " ")
		callers.Go(func() {
			if err := takeTurn(ctx, clients[number], file, number, hold, say); err != nil && ctx.Err() == nil {
				say("failed: client %s: %v", number, err)
			}
		})
	}
	cancel()
	callers.Wait()
	return nil
}

// permitsOfQueue is how many permits the semaphore has for which clients wait.
const permitsOfQueue = 3

// takeTurn waits for the lock, writes the number down and holds for a while. A client whose number begins with
// "set" waits for two locks at once, one whose number begins with "permits" for all permits of a semaphore.
func takeTurn(ctx context.Context, client *redlock.Client, file, number, hold string, say func(string, ...any)) error {
	d, err := time.ParseDuration(hold)
	if err != nil {
		return err
	}
	say("asks %s", number)
	lock := client.Mutex(queueName).Lock
	switch {
	case strings.HasPrefix(number, "set"):
		lock = queueSet(client).Lock
	case strings.HasPrefix(number, "permits"):
		lock = func(ctx context.Context) (*redlock.Lease, error) {
			return client.Semaphore(queueName, permitsOfQueue).Acquire(ctx, permitsOfQueue)
		}
	}
	lease, err := lock(ctx)
	if err != nil {
		return err
	}
	err = appendToFile(file, number)
	say("holds %s", number)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return errors.Join(err, lease.Unlock(ctx))
}

func appendToFile(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	return errors.Join(err, f.Close())
}

// startWaiters starts a process with these clients; it is ready when this returns.
func startWaiters(t *testing.T, nodes cluster.Nodes, file string, ttl time.Duration, numbers ...string) *worker {
	t.Helper()
	w := startWorker(t, "queue", append([]string{file, strings.Join(nodes.URLs(), ","), ttl.String()}, numbers...)...)
	w.expect(t, "ready")
	return w
}

// ask lets a client of the process ask for the lock, to hold it for so long. It
// asks, or is about to, when this returns.
func (w *worker) ask(t *testing.T, number string, hold time.Duration) {
	t.Helper()
	w.say(t, number+" "+hold.String())
	w.expect(t, "asks "+number)
}

// expect waits until the worker writes this line. It skips other lines, except failures.
func (w *worker) expect(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line, ok := <-w.lines:
			require.True(t, ok, "the process ended and never said %q", want)
			require.False(t, strings.HasPrefix(line, "failed"), line)
			if line == want {
				return
			}
		case <-timeout:
			require.FailNow(t, "a process does not go on", "it never said %q", want)
		}
	}
}

// crash ends the process with SIGKILL; it is gone when this returns.
func (w *worker) crash(t *testing.T) {
	t.Helper()
	require.NoError(t, w.cmd.Process.Kill())
	for range w.lines {
	}
}
