package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// rightsInTheDocs returns the words of the ACL rule in docs/operations.md, as ACL SETUSER takes
// them: a user, a password, and all rights.
func rightsInTheDocs(t *testing.T) []any {
	t.Helper()
	for _, command := range operatorsCommands(t) {
		if _, rights, ok := strings.Cut(command, " ACL SETUSER "); ok {
			return words(strings.ReplaceAll(rights, "'", ""))
		}
	}
	t.Fatal("docs/operations.md has no ACL SETUSER")
	return nil
}

// rightsInGroups returns the lines of commands in docs/reference/rights.md.
func rightsInGroups(t *testing.T) (lines [][]string) {
	t.Helper()
	return cluster.Permissions(t, "../docs/reference/rights.md")
}

// rightsForReaders returns the commands that readers need and mutexes do not.
func rightsForReaders(t *testing.T) []string {
	t.Helper()
	for _, line := range rightsInGroups(t) {
		if slices.Contains(line, "+zscore") {
			return line
		}
	}
	t.Fatal("docs/reference/rights.md has no line of rights for readers")
	return nil
}

// The reference has the same rights, in groups.
func TestTheReferenceHasTheSameRights(t *testing.T) {
	allowed := slices.Concat(rightsInGroups(t)...)
	var rights []string
	for _, word := range rightsInTheDocs(t) {
		if strings.HasPrefix(word.(string), "+") {
			rights = append(rights, word.(string))
		}
	}
	slices.Sort(allowed)
	slices.Sort(rights)
	assert.Equal(t, allowed, rights)
}

// restrict creates the user of the docs at all nodes, without some of its rights, and returns
// its URLs. The user is removed when the test ends.
func restrict(t *testing.T, nodes cluster.Nodes, without ...string) (urls []string) {
	t.Helper()
	rights := slices.DeleteFunc(rightsInTheDocs(t), func(word any) bool { return slices.Contains(without, word.(string)) })
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER"}, rights...)...)
		n.Do(t, "ACL", "LOG", "RESET")
		t.Cleanup(func() { n.Do(t, "ACL", "DELUSER", rights[0]) })
		urls = append(urls, "redis://locks:secret@"+n.Addr())
	}
	return urls
}

// requireNothingRefused expects that the nodes refused no command, key or channel.
func requireNothingRefused(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	for _, n := range nodes {
		log, err := redis.Values(n.Do(t, "ACL", "LOG"), nil)
		require.NoError(t, err)
		require.Empty(t, log, "refused commands, keys or channels")
	}
}

func TestTheRightsInTheDocsAreEnough(t *testing.T) {
	for name, c := range map[string]struct {
		without []string
		uses    func(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes)
	}{
		"for mutexes": {rightsForReaders(t), useMutex},
		"for readers": {nil, useReaders},
		"for sets":    {rightsForReaders(t), useSets},
		"for permits": {rightsForReaders(t), useSemaphore},
		"to be told":  {rightsForReaders(t), useWanted},
		"as readers":  {nil, useWantedShares},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notInShort(t)
			nodes := cluster.Use(t, 3)
			urls := restrict(t, nodes, c.without...)
			for _, opts := range [][]redlock.ClientOption{nil, {redlock.WithoutFencing()}} {
				a, b := openGuarded(t, urls, opts...), openGuarded(t, urls, opts...)
				c.uses(t, a, b, nodes)
			}
			requireNothingRefused(t, nodes)
		})
	}
}

// The release of a mutex names the key of its readers.
func TestAMutexNeedsThePatternOfReaders(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	urls := restrict(t, nodes, "~redlock:*")
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER", "locks"}, allButReaders...)...)
	}
	client := openClient(t, urls)
	lease, err := client.Mutex("name").Lock(within(t, soon))
	require.NoError(t, err)
	require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrNoQuorum)
}

// Every client looks whether the servers execute what locks need, and asks no server for votes that refuses a look.
func TestEveryClientNeedsThePatternOfLooks(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	urls := restrict(t, nodes, "~redlock:*")
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER", "locks"}, allButLooks...)...)
	}
	refused := openUnready(t, urls)
	for name, call := range map[string]func(ctx context.Context) error{
		"mutex":   func(ctx context.Context) error { _, err := refused.Mutex("name").TryLock(ctx); return err },
		"reader":  func(ctx context.Context) error { _, err := refused.RWMutex("name").TryRLock(ctx); return err },
		"names":   func(ctx context.Context) error { _, err := refused.Multi([]string{"a", "b"}).TryLock(ctx); return err },
		"permits": func(ctx context.Context) error { _, err := refused.Semaphore("name", 2).TryAcquire(ctx, 1); return err },
		"no lock": refused.Ping,
	} {
		err := call(within(t, soon))
		require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
		require.ErrorContains(t, err, "NOPERM", name)
	}
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "locks", "~redlock::look")
	}
	openClient(t, urls) // a quorum votes for it
}

// allButLooks are patterns of all keys but that of looks, as ACL SETUSER takes them.
var allButLooks = []any{"~redlock:[^:]*", "~redlock::[^l]*"}

// allButReaders are patterns of all keys but the readers', as ACL SETUSER takes them.
var allButReaders = []any{"~redlock:[^:]*", "~redlock::[^r]*", "~redlock::record:*"}

// useMutex uses each script and command of a mutex once: a renewal that restores keys, a wait
// and a hand-off, broken connections, a record that is refilled from others.
func useMutex(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	awaitAllVotes(t, a, nodes)
	lease, err := a.Mutex("name").Lock(ctx)
	require.NoError(t, err)
	awaitKey(t, nodes, "name", lease)
	nodes[0].Do(t, "DEL", prefix+"name")
	require.NoError(t, lease.Extend(ctx))
	next := lockAndUnlock(ctx, b.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	require.NoError(t, lease.Unlock(ctx))
	require.NoError(t, <-next)
	_, err = a.ForceUnlock(ctx, "name")
	require.NoError(t, err)
	nodes[1].Do(t, "FLUSHALL")
	for _, n := range nodes[1:] {
		n.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	require.True(t, eventually(soon, func() bool { return admitted(t, nodes[1]) }))
	require.NoError(t, a.Ping(ctx))
}

// useReaders uses each script of readers, and the scripts of a mutex where there are readers:
// shares beside each other, a counter that is raised for a share, a renewal that restores keys,
// hand-offs in both directions, a waiter that gives up, a lease that is downgraded while readers
// wait, and readers from whom the lock is taken.
func useReaders(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	awaitAllVotes(t, a, nodes)
	awaitAllVotes(t, b, nodes)
	raiseCounter(t, nodes[0], "name", 100) // all counts differ, whichever nodes are the quorum
	raiseCounter(t, nodes[1], "name", 200)
	first, err := a.RWMutex("name").RLock(ctx)
	require.NoError(t, err)
	second, err := b.RWMutex("name").RLock(ctx)
	require.NoError(t, err)
	require.True(t, eventually(soon, func() bool { // the verdict does not wait for the last node
		s, err := a.Inspect(ctx, "name")
		return err == nil && len(s.Readers) == 2 && s.Readers[0].Nodes == len(nodes) && s.Readers[1].Nodes == len(nodes)
	}))
	nodes[0].Do(t, "DEL", prefix+"name", protocol.Key("readers", prefix+"name"))
	require.NoError(t, first.Extend(ctx))
	impatient, giveUp := context.WithCancel(ctx)
	gaveUp := lockAndUnlock(impatient, b.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	awaitWaiters(t, a, "name", 0) // it leaves behind the call

	writer := lockAndUnlock(ctx, a.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	reader := lockAndUnlock(ctx, b.RWMutex("name").RLocker())
	awaitWaiters(t, a, "name", 2)
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
	require.NoError(t, <-writer)
	require.NoError(t, <-reader)

	alone, err := a.RWMutex("name").Lock(ctx)
	require.NoError(t, err)
	reader = lockAndUnlock(ctx, b.RWMutex("name").RLocker())
	awaitWaiters(t, a, "name", 1)
	require.NoError(t, alone.Downgrade(ctx))
	require.NoError(t, <-reader)
	_, err = b.ForceUnlock(ctx, "name")
	require.NoError(t, err)
	require.ErrorIs(t, alone.Unlock(ctx), redlock.ErrLost)
}

// useSets uses each script of locks of several names, and the scripts of a mutex where a set waits:
// a counter that is raised, a renewal that restores a key, a waiter that gives up, hand-offs to a
// set and from a set, and a set from which one name is taken.
func useSets(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	awaitAllVotes(t, a, nodes)
	raiseCounter(t, nodes[0], "name", 100) // all counts differ, whichever nodes are the quorum
	raiseCounter(t, nodes[1], "name", 200)
	set, err := a.Multi([]string{"other", "name"}).Lock(ctx)
	require.NoError(t, err)
	awaitKey(t, nodes, "name", set)
	nodes[0].Do(t, "DEL", prefix+"name")
	require.NoError(t, set.Extend(ctx))
	impatient, giveUp := context.WithCancel(ctx)
	gaveUp := lockAndUnlock(impatient, b.Multi([]string{"name", "third"}))
	awaitWaiters(t, a, "third", 1)
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	awaitWaiters(t, a, "third", 0) // it leaves behind the call

	mutex := lockAndUnlock(ctx, b.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	next := lockAndUnlock(ctx, b.Multi([]string{"name", "third"}))
	awaitWaiters(t, a, "name", 2)
	require.NoError(t, set.Unlock(ctx))
	require.NoError(t, <-mutex)
	require.NoError(t, <-next)

	set, err = b.Multi([]string{"other", "name"}).Lock(ctx)
	require.NoError(t, err)
	_, err = a.ForceUnlock(ctx, "name")
	require.NoError(t, err)
	require.ErrorIs(t, set.Unlock(ctx), redlock.ErrLost)
}

// useSemaphore uses each script of permits: a counter that is raised, a renewal that restores a key, a
// waiter that gives up, a hand-off, and a slot that is taken from its holder while a caller waits.
func useSemaphore(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	awaitAllVotes(t, a, nodes)
	for slot := range testPermits {
		raiseCounter(t, nodes[0], fmt.Sprint("name#", slot), 100) // all counts differ, whichever nodes are the quorum
		raiseCounter(t, nodes[1], fmt.Sprint("name#", slot), 200)
	}
	two, err := a.Semaphore("name", testPermits).Acquire(ctx, 2)
	require.NoError(t, err)
	slot := fmt.Sprint("name#", two.Slots()[0])
	awaitKey(t, nodes, slot, two)
	nodes[0].Do(t, "DEL", prefix+slot)
	require.NoError(t, two.Extend(ctx))
	acquire := func(ctx context.Context, n int) <-chan error {
		got := make(chan error, 1)
		go func() {
			got <- b.Semaphore("name", testPermits).Do(ctx, n, func(context.Context, *redlock.Lease) error { return nil })
		}()
		return got
	}
	impatient, giveUp := context.WithCancel(ctx)
	gaveUp := acquire(impatient, 3)
	awaitWaiters(t, a, "name", 1)
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	awaitWaiters(t, a, "name", 0) // it leaves behind the call

	next := acquire(ctx, 2)
	awaitWaiters(t, a, "name", 1)
	require.NoError(t, two.Unlock(ctx))
	require.NoError(t, <-next)

	two, err = a.Semaphore("name", testPermits).Acquire(ctx, 3)
	require.NoError(t, err)
	next = acquire(ctx, 1)
	awaitWaiters(t, a, "name", 1)
	_, err = b.ForceUnlock(ctx, slot)
	require.NoError(t, err)
	require.NoError(t, <-next)
	require.ErrorIs(t, two.Unlock(ctx), redlock.ErrLost)
}

// lockAndUnlock takes a lock, and releases it, beside the caller.
func lockAndUnlock(ctx context.Context, m *redlock.Mutex) <-chan error {
	result := make(chan error, 1)
	go func() {
		lease, err := m.Lock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		result <- err
	}()
	return result
}

// awaitWaiters waits until so many callers wait for a lock at a quorum of the nodes. At one of the others a ticket may stand
// whose caller has got the lock, or has left; and a caller that waits at fewer does not keep another one from the lock.
func awaitWaiters(t *testing.T, c *redlock.Client, name string, n int) {
	t.Helper()
	require.True(t, eventually(soon, func() bool {
		s, err := c.Inspect(t.Context(), name)
		if err != nil {
			return false
		}
		waiters := slices.DeleteFunc(s.Queue, func(w redlock.WaiterStatus) bool { return w.Nodes <= len(s.Nodes)/2 })
		return len(waiters) == n
	}), "%d waiters", n)
}

// awaitKey waits until every node has granted a lease the key of a name: the verdict does not wait for the last node, which
// may still have the key of an earlier lease. Before the lease was asked for, all nodes must have voted for its client
// (awaitAllVotes). A node that votes later has no key of it, and the renewal that puts it there may be under way when
// the test takes another node's key: then keys were missing at a quorum, and the lease is lost.
func awaitKey(t *testing.T, nodes cluster.Nodes, name string, lease *redlock.Lease) {
	t.Helper()
	require.True(t, eventually(soon, func() bool {
		return !slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Get(t, prefix+name) != lease.Owner() })
	}), "a node has no key of the lease: %v", lease.Err())
}

// raiseCounter makes a node count ahead of others: then the next lease raises theirs.
func raiseCounter(t *testing.T, n *cluster.Node, name string, by int) {
	t.Helper()
	for _, key := range n.Keys(t) {
		if strings.HasPrefix(key, "redlock::record:") {
			n.Do(t, "HINCRBY", key, protocol.StripeOf(prefix+name), by)
		}
	}
}

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
