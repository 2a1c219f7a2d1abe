package redlockcertmagic_test

import (
	"context"
	"sync"
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
	a, b, _ := startTwo(t)
	require.NoError(t, a.Lock(within(t, soon), name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(t.Context(), name, time.Minute), redlock.ErrLost)
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrLost)
	require.ErrorIs(t, a.Unlock(t.Context(), name), redlock.ErrReleased)
	require.NoError(t, a.Lock(within(t, soon), name), "the lost lease is in the way")
	require.NoError(t, a.Unlock(t.Context(), name))
}

func TestUnlockOfALostLockSaysSo(t *testing.T) {
	a, b, _ := startTwo(t)
	require.NoError(t, a.Lock(within(t, soon), name))
	loseLock(t, b)
	err := a.Unlock(t.Context(), name)
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorContains(t, err, name)
}

// certmagic makes further attempts under one Lock, for a month.
func TestRenewLockLeaseGetsALostLockAgain(t *testing.T) {
	a, b, ctx := startTwo(t)
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
	a, b, ctx := startTwo(t)
	require.NoError(t, a.Lock(ctx, name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(ctx, name, time.Minute), redlock.ErrLost)
	locked := make(chan error, 1)
	go func() { locked <- a.Lock(ctx, name) }()
	requireTry(ctx, t, a, false)
	require.ErrorIs(t, a.Unlock(ctx, name), redlock.ErrLost)
	require.NoError(t, <-locked)
	requireTry(ctx, t, b, false)
	require.NoError(t, a.Unlock(ctx, name))
}

// calledContext calls a function when somebody asks for its channel, or for a value.
type calledContext struct {
	context.Context
	once sync.Once
	done func()
	ask  func()
}

func (c *calledContext) Done() <-chan struct{} {
	if c.done != nil {
		c.once.Do(c.done)
	}
	return c.Context.Done()
}

func (c *calledContext) Value(key any) any {
	if c.ask != nil {
		c.once.Do(c.ask)
	}
	return c.Context.Value(key)
}

// waitBehind calls Lock for a name that another caller of the instance has, and returns when
// that waits.
func waitBehind(ctx context.Context, a instance) (locked <-chan error) {
	waits, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- a.Lock(&calledContext{Context: ctx, done: func() { close(waits) }}, name) }()
	<-waits
	return result
}

func TestASecondUnlockDoesNotUnlockForTheNextCaller(t *testing.T) {
	a, b, ctx := startTwo(t)
	require.NoError(t, a.Lock(ctx, name))
	others := make(chan error, 1)
	go func() { others <- b.Lock(ctx, name) }()
	awaitQueue(t, a.client, 1)
	locked := waitBehind(ctx, a)
	require.NoError(t, a.Unlock(ctx, name))
	require.NoError(t, <-others)
	awaitQueue(t, b.client, 1)
	require.ErrorIs(t, a.Unlock(ctx, name), redlock.ErrReleased)
	require.NoError(t, b.Unlock(ctx, name))
	require.NoError(t, <-locked)
	require.NoError(t, a.Unlock(ctx, name))
}

// Go chooses at random among the cases of a select that are ready, so one try shows nothing.
func TestAnEndedContextOnAFreeNameBlamesNoOtherCaller(t *testing.T) {
	t.Parallel()
	a := start(t, redlocktest.Start(t, 1), t.TempDir())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		require.EqualError(t, a.Lock(ended, name),
			`redlockcertmagic: lock "issue_cert_example.com": redlock: lock "certmagic:issue_cert_example.com": context canceled`)
	}
	require.NoError(t, a.Lock(within(t, soon), name), "none of them has the slot")
	require.ErrorContains(t, a.Lock(ended, name), "another caller of this process has it: context canceled")
	require.NoError(t, a.Unlock(t.Context(), name))
}

func TestATryLockThatIsRefusedLetsTheNextCallerOfItsProcessAsk(t *testing.T) {
	a, b, ctx := startTwo(t)
	require.NoError(t, b.Lock(ctx, name))
	var locked <-chan error
	got, err := a.TryLock(&calledContext{Context: ctx, ask: func() { locked = waitBehind(ctx, a) }}, name)
	require.NoError(t, err)
	require.False(t, got)
	awaitQueue(t, b.client, 1)
	require.NoError(t, b.Unlock(ctx, name))
	require.NoError(t, <-locked)
	require.NoError(t, a.Unlock(ctx, name))
}

// At its end a program unlocks all names, whatever certmagic is about to do.
func TestAnUnlockWhileALostLockIsLockedAgainReleasesIt(t *testing.T) {
	a, b, ctx := startTwo(t)
	require.NoError(t, a.Lock(ctx, name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(ctx, name, time.Minute), redlock.ErrLost)
	unlocking := &calledContext{Context: ctx, ask: func() { require.ErrorIs(t, a.Unlock(ctx, name), redlock.ErrLost) }}
	require.ErrorIs(t, a.RenewLockLease(unlocking, name, time.Minute), redlock.ErrReleased)
	requireTry(ctx, t, b, true)
}
