package redlockcertmagic_test

import (
	"context"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockcertmagic"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// soon is the limit for steps that take milliseconds on an idle machine.
	soon = 20 * time.Second

	// name is a lock as certmagic calls it, and key is its redlock name.
	name = "issue_cert_example.com"
	key  = "certmagic:" + name
)

// instance is a program with a client and a storage of its own.
type instance struct {
	*redlockcertmagic.Storage
	client *redlock.Client
}

// start makes an instance over a directory, which ends with the test. opts are those of its locks.
func start(t *testing.T, nodes *redlocktest.Nodes, dir string, opts ...redlock.LockOption) instance {
	t.Helper()
	client := open(t, nodes)
	storage, err := redlockcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client, opts...)
	require.NoError(t, err)
	return instance{storage, client}
}

// startTwo makes two instances over the same nodes, and a context for their calls, for a test that runs beside others.
func startTwo(t *testing.T) (a, b instance, ctx context.Context) {
	t.Helper()
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	return start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir()), within(t, soon)
}

// requireTry expects that an instance gets the lock at once, or does not.
func requireTry(ctx context.Context, t *testing.T, a instance, want bool) {
	t.Helper()
	got, err := a.TryLock(ctx, name)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func open(t *testing.T, nodes *redlocktest.Nodes) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), redlock.WithTTL(30*time.Second))
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// awaitQueue waits until so many callers wait for the lock at a quorum of the nodes. At one of
// the others the holder may still be in the queue: it may have got the lock without that node.
func awaitQueue(t *testing.T, client *redlock.Client, waiters int) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, err := client.Inspect(t.Context(), key)
		return err == nil && waitersOf(status) == waiters
	}, soon, 10*time.Millisecond)
}

// waitersOf returns how many callers wait at a quorum of the nodes.
func waitersOf(status redlock.Status) (n int) {
	for _, waiter := range status.Queue {
		if waiter.Nodes > len(status.Nodes)/2 {
			n++
		}
	}
	return n
}
