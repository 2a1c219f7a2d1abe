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
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
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
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
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
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := start(t, nodes, t.TempDir()), start(t, nodes, t.TempDir())
	ctx := within(t, soon)
	require.NoError(t, a.Lock(ctx, name))
	loseLock(t, b)
	require.ErrorIs(t, a.RenewLockLease(ctx, name, time.Minute), redlock.ErrLost)
	unlocking := &calledContext{Context: ctx, ask: func() { require.ErrorIs(t, a.Unlock(ctx, name), redlock.ErrLost) }}
	require.ErrorIs(t, a.RenewLockLease(unlocking, name, time.Minute), redlock.ErrReleased)
	got, err := b.TryLock(ctx, name)
	require.NoError(t, err)
	require.True(t, got)
}
