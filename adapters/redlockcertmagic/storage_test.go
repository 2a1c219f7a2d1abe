package redlockcertmagic_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockcertmagic"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestWrapRefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := redlockcertmagic.Wrap(nil, open(t, redlocktest.Start(t, 1)))
	require.ErrorIs(t, err, redlock.ErrConfig)
	_, err = redlockcertmagic.Wrap(&certmagic.FileStorage{}, nil)
	require.ErrorIs(t, err, redlock.ErrConfig)
}

func TestBadOptionsAreReportedByTheFirstLock(t *testing.T) {
	t.Parallel()
	a := start(t, redlocktest.Start(t, 1), t.TempDir(), redlock.WithTTL(1))
	require.ErrorIs(t, a.Lock(t.Context(), name), redlock.ErrConfig)
	_, err := a.TryLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrConfig)
}

func TestDataStayInTheWrappedStorage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := start(t, redlocktest.Start(t, 1), dir)
	require.NoError(t, a.Store(t.Context(), "k", []byte("v")))
	value, err := (&certmagic.FileStorage{Path: dir}).Load(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(value))
	require.Equal(t, "redlock:FileStorage:"+dir, a.String())
}

func TestStringDoesNotShowTheFieldsOfAStorage(t *testing.T) {
	t.Parallel()
	type database struct {
		certmagic.Storage
		Password string
	}
	s, err := redlockcertmagic.Wrap(database{Password: "hunter2"}, open(t, redlocktest.Start(t, 1)))
	require.NoError(t, err)
	require.NotContains(t, s.String(), "hunter2")
}

func TestTheLocksOfTheWrappedStorageAreNotUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := start(t, redlocktest.Start(t, 1), dir)
	require.NoError(t, a.Lock(within(t, soon), name))
	require.NoDirExists(t, filepath.Join(dir, "locks"), "certmagic's files with its locks")
	require.NoError(t, a.Unlock(t.Context(), name))
}

func TestOneInstanceHasALockUntilItsUnlock(t *testing.T) {
	a, b, ctx := startTwo(t)
	require.NoError(t, a.Lock(ctx, name))
	requireTry(ctx, t, b, false)
	locked := make(chan error, 1)
	go func() { locked <- b.Lock(ctx, name) }()
	awaitQueue(t, a.client, 1)
	require.NoError(t, a.Unlock(ctx, name))
	require.NoError(t, <-locked)
	requireTry(ctx, t, a, false)
	require.NoError(t, b.Unlock(ctx, name))
	requireTry(ctx, t, a, true)
	require.NoError(t, a.Unlock(ctx, name))
}

func TestOneCallerOfAnInstanceHasALock(t *testing.T) {
	t.Parallel()
	a := start(t, redlocktest.Start(t, 3), t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	requireTry(ctx, t, a, false)

	gaveUp := errors.New("gave up")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(gaveUp)
	require.ErrorIs(t, a.Lock(ended, name), gaveUp)

	locked := make(chan error, 1)
	go func() { locked <- a.Lock(ctx, name) }()
	require.NoError(t, a.Unlock(ctx, name))
	require.NoError(t, <-locked)
	require.NoError(t, a.Unlock(ctx, name))
}

func TestOtherNamesAndPrefixesAreOtherLocks(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir(), redlock.WithPrefix("staging:"))
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	require.NoError(t, a.Lock(ctx, "storage_clean"))
	require.NoError(t, b.Lock(ctx, name))
	require.NoError(t, b.Unlock(ctx, name))
	require.NoError(t, a.Unlock(ctx, name))
	require.NoError(t, a.Unlock(ctx, "storage_clean"))
}

func TestLockHonoursItsContext(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	require.NoError(t, a.Lock(within(t, soon), name))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- b.Lock(ctx, name) }()
	awaitQueue(t, a.client, 1)
	cancel()
	err := <-gaveUp
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.NoError(t, a.Unlock(t.Context(), name))
	require.NoError(t, b.Lock(within(t, soon), name), "the caller that gave up is in the way")
	require.NoError(t, b.Unlock(t.Context(), name))
}

func TestTryLockReturnsAnErrorWhereTooFewNodesAnswer(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a := start(t, nodes, t.TempDir(), redlock.WithNodeTimeout(time.Second))
	nodes.Stop(0)
	nodes.Stop(1)
	got, err := a.TryLock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.False(t, got)
}

func TestTryLockDoesNotPassACallerOfItsProcessThatWaits(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, b.Lock(ctx, name))
	locked := make(chan error, 1)
	go func() { locked <- a.Lock(ctx, name) }()
	awaitQueue(t, b.client, 1)
	nodes.Stop(0) // so TryLock would have to return an error if it asked
	requireTry(ctx, t, a, false)
	require.NoError(t, nodes.Start(0))
	_ = b.Unlock(ctx, name) // the node may have lost it
	require.NoError(t, <-locked)
	require.NoError(t, a.Unlock(ctx, name))
}

func TestAnUnlockThatTooFewNodesConfirmLetsTheNextCallerAsk(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a := start(t, nodes, t.TempDir(), redlock.WithNodeTimeout(time.Second))
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	nodes.Stop(0)
	nodes.Stop(1)
	err := a.Unlock(ctx, name)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, name)
	require.Zero(t, a.Slots())
	require.NoError(t, nodes.Start(0))
	require.NoError(t, nodes.Start(1))
	require.NoError(t, a.Lock(ctx, name))
	require.NoError(t, a.Unlock(ctx, name))
}

func TestUnlockWithoutLockIsAnError(t *testing.T) {
	t.Parallel()
	a := start(t, redlocktest.Start(t, 1), t.TempDir())
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrReleased)
	require.NoError(t, a.Lock(within(t, soon), name))
	require.NoError(t, a.Unlock(t.Context(), name))
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrReleased)
	require.ErrorIs(t, a.RenewLockLease(t.Context(), name, time.Minute), redlock.ErrReleased)
}

// certmagic unlocks with a context that has ended when a program stops.
func TestUnlockIgnoresTheEndOfItsContext(t *testing.T) {
	a, b, _ := startTwo(t)
	require.NoError(t, a.Lock(within(t, soon), name))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Unlock(ctx, name))
	got, err := b.TryLock(t.Context(), name)
	require.NoError(t, err)
	require.True(t, got)
}

func TestUnlockReturnsErrClosedAfterTheClientsClose(t *testing.T) {
	t.Parallel()
	a := start(t, redlocktest.Start(t, 1), t.TempDir())
	require.NoError(t, a.Lock(within(t, soon), name))
	require.NoError(t, a.client.Close())
	require.ErrorIs(t, a.RenewLockLease(t.Context(), name, time.Minute), redlock.ErrClosed)
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrClosed)
}

// A program may have locked any number of names in its life.
func TestAStorageForgetsNamesThatNobodyLocks(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	got, err := a.TryLock(ctx, name) // refused in this process
	require.NoError(t, err)
	require.False(t, got)
	require.Error(t, b.RenewLockLease(ctx, name, time.Minute))
	got, err = b.TryLock(ctx, name) // refused by the nodes
	require.NoError(t, err)
	require.False(t, got)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.Error(t, a.Lock(ended, name))
	require.Error(t, b.Lock(ended, name))
	require.Equal(t, 1, a.Slots())
	require.Zero(t, b.Slots())
	require.NoError(t, a.Unlock(ctx, name))
	require.Zero(t, a.Slots())
}
