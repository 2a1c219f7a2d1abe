package redlocktest_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestClientVotesAtOnceAndEndsWithTheTest(t *testing.T) {
	var client *redlock.Client
	t.Run("test", func(t *testing.T) {
		client = redlocktest.Client(t, 3)
		lease, err := client.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, lease.Remaining(), 4*time.Second)
		require.LessOrEqual(t, lease.Remaining(), 5*time.Second)
	})
	require.ErrorIs(t, client.Ping(t.Context()), redlock.ErrClosed)
}

func TestOptionsOverrideThoseOfTheTestClient(t *testing.T) {
	client := redlocktest.Client(t, 1, redlock.WithTTL(time.Minute), redlock.WithoutRenewal())
	lease, err := client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, lease.Remaining(), 50*time.Second)
}

func TestBadOptionFailsTheTest(t *testing.T) {
	fake := &fakeTB{}
	defer func() {
		for _, cleanup := range fake.cleanups {
			cleanup()
		}
	}()
	var over sync.WaitGroup
	over.Go(func() { redlocktest.Client(fake, 1, redlock.WithTTL(0)) })
	over.Wait()
	require.Contains(t, fake.failure, "redlocktest: redlock: bad configuration: WithTTL(0s)")
}

func TestHeldLockIsAnotherClientsUntilItIsReleased(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := nodes.Client(t, redlock.WithPrefix("other:"))
	lease := nodes.Hold(t, "x", "web-2", redlock.WithPrefix("other:"))

	_, err := client.Mutex("x").TryLock(t.Context())
	var held *redlock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "web-2", held.Label)
	require.Equal(t, lease.Owner(), held.Holder)

	require.NoError(t, lease.Unlock(t.Context()))
	mine, err := client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, mine.Unlock(t.Context()))
}

func TestHoldFailsTheTestForABadName(t *testing.T) {
	fake, nodes := &fakeTB{}, redlocktest.Start(t, 1)
	var over sync.WaitGroup
	over.Go(func() { nodes.Hold(fake, "", "web-2") })
	over.Wait()
	require.Contains(t, fake.failure, "redlocktest: hold: redlock: bad configuration: ")
	for _, cleanup := range fake.cleanups {
		cleanup()
	}
}

func TestLoseEndsTheLeasesOfEachKind(t *testing.T) {
	t.Parallel()
	for kind, lock := range map[string]func(*redlock.Client, context.Context) (*redlock.Lease, error){
		"mutex":  func(c *redlock.Client, ctx context.Context) (*redlock.Lease, error) { return c.Mutex("x").Lock(ctx) },
		"reader": func(c *redlock.Client, ctx context.Context) (*redlock.Lease, error) { return c.RWMutex("x").RLock(ctx) },
		"permits": func(c *redlock.Client, ctx context.Context) (*redlock.Lease, error) {
			return c.Semaphore("x", 3).Acquire(ctx, 2)
		},
		"set": func(c *redlock.Client, ctx context.Context) (*redlock.Lease, error) {
			return c.Multi([]string{"y", "x"}).Lock(ctx)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nodes := redlocktest.Start(t, 3)
			lease, err := lock(nodes.Client(t), t.Context())
			require.NoError(t, err)
			nodes.Lose(t, "x")
			<-lease.Done()
			require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		})
	}
}

func TestLoseWaitsForAHolder(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	client := nodes.Client(t)
	failed := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		failed <- export(t.Context(), client)
	}()
	nodes.Lose(t, "export")
	require.ErrorIs(t, <-failed, redlock.ErrLost)
}

func TestLoseFailsTheTestWithoutAHolder(t *testing.T) {
	if !long.Tests() {
		t.Skip("it waits for ten seconds")
	}
	t.Parallel()
	fake, nodes := &fakeTB{}, redlocktest.Start(t, 1)
	var over sync.WaitGroup
	over.Go(func() { nodes.Lose(fake, "x") })
	over.Wait()
	require.Equal(t, `redlocktest: lose: lock "x" has no holder`, fake.failure)
	for _, cleanup := range fake.cleanups {
		cleanup()
	}
}

// The library releases a lease whose handle nobody can reach. A test that calls Hold need not keep it.
func TestHoldKeepsALeaseThatTheTestDrops(t *testing.T) {
	if !long.Tests() {
		t.Skip("it waits for four seconds")
	}
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	nodes.Hold(t, "x", "another")
	client := nodes.Client(t)
	for range 40 { // a renewal notices that the handle is gone
		runtime.GC()
		time.Sleep(100 * time.Millisecond)
	}
	_, err := client.Mutex("x").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
}
