package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

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
