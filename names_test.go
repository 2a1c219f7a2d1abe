package redlock_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// openFor opens a client of three nodes of the test's own.
func openFor(t *testing.T, opts ...redlock.ClientOption) *redlock.Client {
	return testclient.Open(t, redlocktest.Start(t, 3).URLs(), opts...)
}

// callsWith makes every call that takes a name, and returns their errors.
func callsWith(ctx context.Context, c *redlock.Client, name string) map[string]error {
	errs := make(map[string]error)
	lock := func(what string, call func(context.Context) (*redlock.Lease, error)) {
		l, err := call(ctx)
		if errs[what] = err; err == nil {
			_ = l.Unlock(ctx)
		}
	}
	lock("Lock", c.Mutex(name).Lock)
	lock("TryLock", c.Mutex(name).TryLock)
	lock("RWMutex.Lock", c.RWMutex(name).Lock)
	lock("RWMutex.RLock", c.RWMutex(name).RLock)
	lock("RWMutex.TryRLock", c.RWMutex(name).TryRLock)
	lock("Multi.Lock", c.Multi([]string{"a", name}).Lock)
	lock("Multi.TryLock", c.Multi([]string{name, "a"}).TryLock)
	lock("Acquire", func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore(name, 3).Acquire(ctx, 1) })
	lock("TryAcquire", func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore(name, 3).TryAcquire(ctx, 1) })
	_, errs["Inspect"] = c.Inspect(ctx, name)
	_, errs["ForceUnlock"] = c.ForceUnlock(ctx, name)
	errs["Ask"] = c.Ask(ctx, name)
	errs["Do"] = c.Mutex(name).Do(ctx, func(context.Context, *redlock.Lease) error { return nil })
	return errs
}

func TestTooLongNamesAreRefusedByAllCalls(t *testing.T) {
	c := openFor(t)
	const prefix, longest = len("redlock:"), 4096
	for _, name := range []string{strings.Repeat("x", longest-prefix+1), strings.Repeat("\xff", 60_000)} {
		for what, err := range callsWith(t.Context(), c, name) {
			if assert.ErrorIs(t, err, redlock.ErrConfig, what) {
				assert.ErrorContains(t, err, "is too long: with the prefix it has", what)
				assert.Less(t, len(err.Error()), 1200, what)
			}
		}
	}
	fits := strings.Repeat("x", longest-prefix-len("#255"))
	for what, err := range callsWith(t.Context(), c, fits) {
		assert.NoError(t, err, what)
	}
	lease, err := c.Mutex(fits + "#255").Lock(t.Context())
	require.NoError(t, err, "the slots of a semaphore have names")
	text, err := lease.Transfer(t.Context())
	require.NoError(t, err)
	lease, err = c.Resume(t.Context(), text)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	_, err = c.Semaphore(fits+"x", 1).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, redlock.ErrConfig)
	_, err = c.Mutex("x", redlock.WithPrefix(strings.Repeat("p", longest))).TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrConfig)
	_, err = c.Mutex(strings.Repeat("x", 100), redlock.WithPrefix(strings.Repeat("p", longest-99))).TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrConfig)
}

// A name of 64 MB is refused where the lock is made: it costs no memory, and the client's other
// leases go on.
func TestHugeNameCostsNothing(t *testing.T) {
	c := openFor(t)
	lease, err := c.Mutex("other").Lock(t.Context())
	require.NoError(t, err)
	name := strings.Repeat("x", 64<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		for what, err := range callsWith(t.Context(), c, name) {
			require.ErrorIs(t, err, redlock.ErrConfig, what)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
}
