package redlockmigrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// golang-migrate leaves this one behind for a migration that it read and did not run.
		goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer"))
}

const (
	// soon is the limit for steps that take milliseconds on an idle machine.
	soon = 20 * time.Second

	// name is the lock of all tests.
	name = "migrate orders"
)

func open(t *testing.T, nodes *redlocktest.Nodes) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), redlock.WithTTL(20*time.Second),
		redlock.WithRenewEvery(200*time.Millisecond)) // a lock that was taken away is noticed then
}

// loseLock takes the lock away from its holder.
func loseLock(t *testing.T, client *redlock.Client) {
	t.Helper()
	_, err := client.ForceUnlock(t.Context(), name)
	require.NoError(t, err)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// awaitQueue waits until so many callers wait for the lock at the nodes.
func awaitQueue(t *testing.T, client *redlock.Client, waiters int) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, err := client.Inspect(t.Context(), name)
		return err == nil && len(status.Queue) == waiters
	}, soon, 10*time.Millisecond)
}
