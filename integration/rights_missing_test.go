package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// withoutRight is three nodes at which the user lacks one right, and two clients.
type withoutRight struct {
	t     *testing.T
	ctx   context.Context
	nodes cluster.Nodes
	right string
	a, b  *redlock.Client
	named int // failures that named the right
}

// Every right that readers need is taken away in turn. Calls fail, or leases are lost, but no key
// stays for ever, and writers that wait get the lock.
func TestAMissingRightForReadersLeavesNoKeyForEver(t *testing.T) {
	for _, right := range append(rightsForReaders(t), "+time") { // mutexes need time for their queue, readers always
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			notInShort(t)
			nodes := cluster.Use(t, 3)
			urls := restrict(t, nodes, right)
			opts := []redlock.ClientOption{redlock.WithTTL(8 * time.Second), redlock.WithNodeTimeout(2 * time.Second)}
			w := &withoutRight{t: t, ctx: within(t, 6*soon), nodes: nodes, right: strings.TrimPrefix(right, "+"),
				a: openClient(t, urls, opts...), b: openClient(t, urls, opts...)}
			w.read()
			w.downgrade()
			w.handOff()
			assert.NotZero(t, w.named, "some call must have failed for the right")
			assert.True(t, eventually(3*soon, func() bool { return len(w.keys()) == 0 }), "%v", w.keys())
		})
	}
}

// Without any of them a mutex works where there are no readers.
func TestAMutexNeedsNoRightForReaders(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	urls := restrict(t, nodes, rightsForReaders(t)...)
	a, b := openClient(t, urls), openClient(t, urls)
	lease, err := a.Mutex("name").Lock(within(t, soon))
	require.NoError(t, err)
	var waiting []<-chan error
	for i := range 3 {
		waiting = append(waiting, lockAndUnlock(within(t, soon), b.Mutex("name")))
		awaitWaiters(t, a, "name", i+1)
	}
	require.NoError(t, lease.Extend(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	for _, w := range waiting {
		require.NoError(t, <-w)
	}
	requireNothingRefused(t, nodes)
	assertNoKeys(t, nodes)
}

// Inspect asks for permits as well. A user of mutexes alone may have no right to look at their keys.
func TestAMutexNeedsNoRightForPermits(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	urls := restrict(t, nodes, "~redlock:*")
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "locks", "~redlock:[^:]*", "~redlock::[^s]*")
	}
	restricted, other := openClient(t, urls), openClient(t, nodes.URLs())
	lease, err := restricted.Mutex("name").Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Extend(t.Context()))
	permit, err := other.Semaphore("name", 1).Acquire(within(t, soon), 1)
	require.NoError(t, err)
	s, err := restricted.Inspect(t.Context(), "name")
	require.NoError(t, err)
	require.Equal(t, lease.Owner(), s.Holder)
	require.Empty(t, s.Permits, "it may not look at them")
	s, err = other.Inspect(t.Context(), "name")
	require.NoError(t, err)
	require.Len(t, s.Permits, 1)
	_, err = restricted.Semaphore("name", 1).TryAcquire(within(t, soon), 1)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	_, err = restricted.ForceUnlock(t.Context(), "name")
	require.NoError(t, err)
	require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
	require.NoError(t, permit.Unlock(t.Context()))
	assertNoKeys(t, nodes)
}

// A script that makes a name free looks at what its first waiter wants, and at the other names. A
// user that may not do so leaves the names to the waiter: it gets them when it polls, or when the
// ttl ends if the release failed.
func TestReleaseForASetByAUserWithNarrowPatterns(t *testing.T) {
	const ttl = 10 * time.Second
	for missing, patterns := range map[string][]any{
		"what a ticket wants": {"~redlock:[^:]*", "~redlock::[^w]*", "~redlock::watched:*"},
		"the other name":      {"~redlock:name", "~redlock::*"},
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			notInShort(t)
			nodes := cluster.Use(t, 3)
			urls := restrict(t, nodes, "~redlock:*")
			for _, n := range nodes {
				n.Do(t, "ACL", append([]any{"SETUSER", "locks"}, patterns...)...)
			}
			opts := []redlock.ClientOption{redlock.WithTTL(ttl), redlock.WithNodeTimeout(2 * time.Second)}
			restricted, other := openClient(t, urls, opts...), openClient(t, nodes.URLs(), opts...)
			lease, err := restricted.Mutex("name").Lock(within(t, soon))
			require.NoError(t, err)
			set := lockAndUnlock(within(t, 3*ttl), other.Multi([]string{"name", "other"}))
			awaitWaiters(t, other, "name", 1)
			released := time.Now()
			if err := lease.Unlock(t.Context()); err != nil {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NoError(t, <-set)
			} else {
				require.NoError(t, <-set)
				require.Less(t, time.Since(released), ttl/2)
			}
			assertNoKeys(t, nodes)
		})
	}
}

// step checks the result of a call: a failure names the right, and no key is without an end.
func (w *withoutRight) step(name string, err error) {
	w.t.Helper()
	w.t.Logf("%s: %v", name, err)
	if lost := (*redlock.LostError)(nil); errors.As(err, &lost) {
		err = lost.Cause
	}
	if errors.Is(err, redlock.ErrNoQuorum) {
		assert.Regexp(w.t, fmt.Sprintf(`it may not call (\w+ or )*%[1]s\b|run the '%[1]s' command`, w.right), err, name)
		w.named++
	}
	for key, left := range w.keys() {
		assert.NotEqual(w.t, -1, left, "%s: %s has no ttl", name, key)
	}
}

// keys returns the remaining milliseconds of each key, by node and name; those of records, which
// have no end, are left out.
func (w *withoutRight) keys() map[string]int {
	all := make(map[string]int)
	for i, n := range w.nodes {
		for _, key := range n.Keys(w.t) {
			if strings.HasPrefix(key, "redlock::record:") || strings.HasPrefix(key, "redlock::alive:") { // a client's, for 76 s
				continue
			}
			left, err := redis.Int(n.Do(w.t, "PTTL", key), nil)
			require.NoError(w.t, err)
			all[fmt.Sprintf("node %d: %s", i, key)] = left
		}
	}
	return all
}

// read takes shares, renews and releases them, and lets a writer wait for them. A lease of an RDo
// is held until it is lost, or renewed.
func (w *withoutRight) read() {
	x := w.a.RWMutex("x")
	first, err := x.RLock(w.ctx)
	w.step("RLock", err)
	second, err := w.b.RWMutex("x").RLock(w.ctx)
	w.step("RLock of another", err)
	if first != nil {
		w.step("Extend", first.Extend(w.ctx))
		writer := lockAndUnlock(w.ctx, w.b.Mutex("x"))
		awaitWaiters(w.t, w.a, "x", 1)
		w.step("a writer waits", nil)
		w.step("Unlock", first.Unlock(w.ctx))
		if second != nil {
			w.step("Unlock of another", second.Unlock(w.ctx))
		}
		err := <-writer
		require.NoError(w.t, err, "a writer gets the lock, at the end of the ttl at the latest")
		w.step("the writer", err)
	}
	w.step("RDo", w.a.RWMutex("z").RDo(w.ctx, func(ctx context.Context, lease *redlock.Lease) error {
		select {
		case <-ctx.Done(): // its renewals fail
		case <-time.After(9 * time.Second): // they do not
		}
		w.step("RDo, after a ttl", nil)
		return nil
	}))
}

// downgrade makes a lease that holds the lock alone a share.
func (w *withoutRight) downgrade() {
	lease, err := w.a.RWMutex("y").Lock(w.ctx)
	require.NoError(w.t, err)
	w.step("Downgrade", lease.Downgrade(w.ctx))
	w.step("Unlock", lease.Unlock(w.ctx))
}

// handOff releases a lock for which a reader waits. The reader's attempt may be parked, so that
// the release executes it.
func (w *withoutRight) handOff() {
	lease, err := w.a.Mutex("q").Lock(w.ctx)
	require.NoError(w.t, err)
	ctx, cancel := context.WithTimeout(w.ctx, soon)
	defer cancel()
	reader := make(chan error, 1)
	go func() {
		lease, err := w.b.RWMutex("q").RLock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		reader <- err
	}()
	eventually(time.Second, func() bool { // without time it cannot wait
		s, err := w.a.Inspect(w.ctx, "q")
		return err == nil && len(s.Queue) == 1
	})
	w.step("Unlock, and a reader waits", lease.Unlock(w.ctx))
	w.step("the reader", <-reader)
}
