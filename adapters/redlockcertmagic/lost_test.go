package redlockcertmagic_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// loseLock takes an instance's lock away.
func loseLock(t *testing.T, by instance) {
	t.Helper()
	_, err := by.client.ForceUnlock(t.Context(), key)
	require.NoError(t, err)
}

func TestRenewLockLeaseReturnsNilWhileTheLeaseIsValid(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a := start(t, nodes, t.TempDir(), redlock.WithNodeTimeout(time.Second))
	require.NoError(t, a.Lock(within(t, soon), name))
	require.NoError(t, a.RenewLockLease(t.Context(), name, time.Hour))
	status, err := a.client.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.LessOrEqual(t, status.Remaining, 30*time.Second, "a dead process would keep the lock for more than its ttl")
	nodes.Stop(0)
	nodes.Stop(1)
	require.NoError(t, a.RenewLockLease(t.Context(), name, time.Hour))
}

func TestRenewLockLeaseNoticesThatTheLockWasTakenAway(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	require.NoError(t, a.Lock(within(t, soon), name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(t.Context(), name, time.Minute), redlock.ErrLost)
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrLost)
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrReleased)
	require.NoError(t, a.Lock(within(t, soon), name), "the lost lease is in the way")
	require.NoError(t, a.Unlock(t.Context(), name))
}

func TestUnlockOfALostLockSaysSo(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	require.NoError(t, a.Lock(within(t, soon), name))
	loseLock(t, b)
	err := a.Unlock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorContains(t, err, name)
}

// certmagic makes further attempts under one Lock, for a month.
func TestRenewLockLeaseGetsALostLockAgain(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	loseLock(t, b)
	require.NoError(t, b.Lock(ctx, name))
	require.ErrorIs(t, a.RenewLockLease(ctx, name, time.Minute), redlock.ErrLost)
	err := a.RenewLockLease(ctx, name, time.Minute)
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.NoError(t, b.Unlock(ctx, name))
	require.NoError(t, a.RenewLockLease(ctx, name, time.Minute))
	got, err := b.TryLock(ctx, name)
	require.NoError(t, err)
	require.False(t, got, "the lock was not locked again")
	require.NoError(t, a.RenewLockLease(ctx, name, time.Minute))
	require.NoError(t, a.Unlock(ctx, name))
	got, err = b.TryLock(ctx, name)
	require.NoError(t, err)
	require.True(t, got)
}

// certmagic names a lock by its text only: an Unlock of the caller that lost the lock must not
// end the lease of the next caller.
func TestTheNextCallerOfAProcessWaitsForTheUnlockOfALostLock(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(ctx, name, time.Minute), redlock.ErrLost)
	locked := make(chan error, 1)
	go func() { locked <- a.Lock(ctx, name) }()
	got, err := a.TryLock(ctx, name)
	require.NoError(t, err)
	require.False(t, got)
	require.ErrorIs(t, a.Unlock(ctx, name), redlock.ErrLost)
	require.NoError(t, <-locked)
	got, err = b.TryLock(ctx, name)
	require.NoError(t, err)
	require.False(t, got)
	require.NoError(t, a.Unlock(ctx, name))
}
