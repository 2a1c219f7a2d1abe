package contract

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

func acquireRenewRelease(s scene) {
	const short = 3 * time.Second
	a, b := s.client(redlock.WithTTL(short), redlock.WithNodeTimeout(nodeTimeout)), s.client()
	lease := s.lock(a.Mutex(name))
	s.awaitKeys(lease, s.nodes)
	_, err := b.Mutex(name).TryLock(s.within(soon))
	var held *redlock.HeldError
	require.ErrorAs(s, err, &held)
	assert.Equal(s, lease.Owner(), held.Holder)

	first := lease.Until()
	s.await("the lease is not renewed", func() bool { return lease.Until().After(first) })
	s.nodes[0].Do(s, "DEL", prefix+name)
	require.NoError(s, lease.Extend(s.within(soon)))
	s.awaitKeys(lease, s.nodes)
	require.True(s, lease.Valid())

	s.unlock(lease)
	s.unlock(lease) // a second time is no error
	require.ErrorIs(s, lease.Extend(s.within(soon)), redlock.ErrReleased)
	s.awaitNoOrphans()

	next, err := b.Mutex(name).TryLock(s.within(soon))
	require.NoError(s, err)
	assert.Greater(s, next.Token(), lease.Token())
	s.unlock(next)
	s.awaitNoOrphans()
}

// Without tokens newer servers are asked by another command than older ones.
func withoutTokens(s scene) {
	a, b := s.client(redlock.WithoutFencing()), s.client(redlock.WithoutFencing())
	lease := s.lock(a.Mutex(name))
	assert.Zero(s, lease.Token())
	s.awaitKeys(lease, s.nodes)
	_, err := b.Mutex(name).TryLock(s.within(soon))
	require.ErrorIs(s, err, redlock.ErrHeld)
	waiter := s.begin(b.Mutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	s.unlock(lease)
	s.unlock(<-waiter)
	s.awaitNoOrphans()
}

func waitAndHandOff(s scene) {
	a, b, c := s.client(), s.client(), s.client()
	first := s.lock(a.Mutex(name))
	second := s.begin(b.Mutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	third := s.begin(c.Mutex(name).Lock)
	s.awaitWaiters(a, name, 2)
	// A waiter needs a quorum of subscriptions, and gets the others.
	s.await("a waiting client has no subscription at a node", func() bool {
		return !slices.ContainsFunc(s.nodes, func(n *cluster.Node) bool {
			channels, err := redis.Strings(n.Do(s, "PUBSUB", "CHANNELS", "redlock::wake:*"), nil)
			return err != nil || len(channels) != 2
		})
	})

	s.unlock(first)
	next := <-second
	require.NotNil(s, next)
	assert.Greater(s, next.Token(), first.Token())
	select {
	case <-third:
		require.Fail(s, "two hold the lock")
	default:
	}
	require.NoError(s, next.Extend(s.within(soon)))
	s.unlock(next)
	last := <-third
	require.NotNil(s, last)
	assert.Greater(s, last.Token(), next.Token())
	s.unlock(last)
	s.awaitNoOrphans()
}

func waiterGivesUp(s scene) {
	a, b := s.client(), s.client()
	lease := s.lock(a.Mutex(name))
	ctx, cancel := context.WithCancel(s.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := b.Mutex(name).Lock(ctx)
		gaveUp <- err
	}()
	s.awaitWaiters(a, name, 1)
	cancel()
	err := <-gaveUp
	require.ErrorIs(s, err, context.Canceled)
	require.ErrorIs(s, err, redlock.ErrHeld)
	s.awaitWaiters(a, name, 0)
	s.unlock(lease)
	s.awaitNoOrphans()
}

func readers(s scene) {
	a, b := s.client(), s.client()
	first, err := a.RWMutex(name).RLock(s.within(soon))
	require.NoError(s, err)
	second, err := b.RWMutex(name).RLock(s.within(soon))
	require.NoError(s, err)
	require.True(s, first.Shared() && second.Shared())
	_, err = b.RWMutex(name).TryLock(s.within(soon))
	var held *redlock.HeldError
	require.ErrorAs(s, err, &held)
	assert.True(s, held.Shared)

	require.NoError(s, first.Extend(s.within(soon)))
	writer := s.begin(a.RWMutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	reader := s.begin(b.RWMutex(name).RLock)
	s.awaitWaiters(a, name, 2)
	s.unlock(first)
	s.unlock(second)
	alone := <-writer
	require.NotNil(s, alone)
	assert.Greater(s, alone.Token(), second.Token())
	require.NoError(s, alone.Downgrade(s.within(soon)))
	beside := <-reader
	require.NotNil(s, beside)
	assert.True(s, alone.Valid() && alone.Shared() && beside.Valid())
	s.unlock(alone)
	s.unlock(beside)
	s.awaitNoOrphans()
}

func permits(s scene) {
	const all = 3
	a, b := s.client(), s.client()
	two, err := a.Semaphore(name, all).Acquire(s.within(soon), 2)
	require.NoError(s, err)
	one, err := b.Semaphore(name, all).TryAcquire(s.within(soon), 1)
	require.NoError(s, err)
	slots := append(two.Slots(), one.Slots()...)
	slices.Sort(slots)
	require.Len(s, slices.Compact(slots), all, "each slot is held once")
	_, err = b.Semaphore(name, all).TryAcquire(s.within(soon), 1)
	require.ErrorIs(s, err, redlock.ErrHeld)

	waiter := s.begin(func(ctx context.Context) (*redlock.Lease, error) { return b.Semaphore(name, all).Acquire(ctx, 2) })
	s.awaitWaiters(a, name, 1)
	require.NoError(s, two.Extend(s.within(soon)))
	s.unlock(two)
	next := <-waiter
	require.NotNil(s, next)
	assert.Len(s, next.Slots(), 2)
	s.unlock(next)
	s.unlock(one)
	s.awaitNoOrphans()
}

func severalNames(s scene) {
	a, b := s.client(), s.client()
	set := s.lock(a.Multi([]string{"other", name}))
	waiter := s.begin(b.Mutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	next := s.begin(b.Multi([]string{name, "third"}).Lock)
	s.awaitWaiters(a, "third", 1)
	require.NoError(s, set.Extend(s.within(soon)))
	s.unlock(set)
	lease := <-waiter
	require.NotNil(s, lease)
	assert.Greater(s, lease.Token(), set.Token())
	s.unlock(lease)
	s.unlock(<-next)
	s.awaitNoOrphans()
}
