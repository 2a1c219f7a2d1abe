package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// Two callers hold permits of embedded nodes at once, and a third one is refused.
func Example_permits() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, deployments := context.Background(), client.Semaphore("deployments", 2)
	first, err := deployments.Acquire(ctx, 1)
	fmt.Println("first:", err)
	second, err := deployments.Acquire(ctx, 1)
	fmt.Println("second:", err)
	_, err = deployments.TryAcquire(ctx, 1)
	fmt.Println("the third is refused:", errors.Is(err, redlock.ErrHeld))

	slot, has := second.Slots()[0], 0
	for i := range 3 {
		if owner, _ := nodes.Get(i, fmt.Sprintf("redlock:deployments#%d", slot)); owner == second.Owner() {
			has++
		}
	}
	// The permit is held as soon as two of three have it; the third may be about to answer.
	fmt.Println("a majority of the nodes has the key of the slot:", has >= 2)
	fmt.Println("done:", errors.Join(first.Unlock(ctx), second.Unlock(ctx)))
	// Output:
	// first: <nil>
	// second: <nil>
	// the third is refused: true
	// a majority of the nodes has the key of the slot: true
	// done: <nil>
}

func TestPermitsOutliveAMinorityOfEmbeddedNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	one, other := openClient(t, nodes), openClient(t, nodes)
	two, err := one.Semaphore("x", 3).Acquire(t.Context(), 2)
	require.NoError(t, err)
	nodes.Stop(0)
	next := make(chan *redlock.Lease, 1)
	go func() {
		lease, err := other.Semaphore("x", 3).Acquire(t.Context(), 3)
		assert.NoError(t, err)
		next <- lease
	}()
	require.Eventually(t, func() bool {
		s, err := one.Inspect(t.Context(), "x")
		require.NoError(t, err)
		return len(s.Permits) == 2 && len(s.Queue) == 1 && s.Queue[0].Permits == 3
	}, 10*time.Second, time.Millisecond)
	_, err = one.Semaphore("x", 3).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, redlock.ErrHeld, "a caller that wants three waits, and is not passed")
	require.NoError(t, two.Unlock(t.Context()))
	all := <-next
	require.NotNil(t, all)
	require.Len(t, all.Slots(), 3)
	require.Greater(t, all.Token(), two.Token())
	require.NoError(t, all.Unlock(t.Context()))
}

// Readers hold a lock of embedded nodes together, and a writer is refused meanwhile.
func Example_readers() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	catalog := client.RWMutex("catalog")
	err = catalog.RDo(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
		beside, err := client.RWMutex("catalog").RLock(context.Background())
		if err != nil {
			return err
		}
		_, err = catalog.TryLock(context.Background())
		fmt.Println("another reader:", beside.Shared())
		fmt.Println("a writer:", err != nil)
		return beside.Unlock(ctx)
	})
	fmt.Println("done:", err)
	// Output:
	// another reader: true
	// a writer: true
	// done: <nil>
}

// openClient opens a client that bears nodes that a busy machine keeps waiting.
func openClient(t *testing.T, nodes *redlocktest.Nodes, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), append([]redlock.ClientOption{redlock.WithTTL(20 * time.Second)}, opts...)...)
}

func TestReadersAndWritersExcludeEachOtherAtEmbeddedNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	a, b := openClient(t, nodes).RWMutex("x"), openClient(t, nodes).RWMutex("x")
	first, err := a.RLock(t.Context())
	require.NoError(t, err)
	second, err := b.RLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Extend(t.Context()))

	writers := make(chan *redlock.Lease, 1)
	go func() {
		writer, err := b.Lock(t.Context())
		assert.NoError(t, err)
		writers <- writer
	}()
	inspector := openClient(t, nodes)
	require.Eventually(t, func() bool {
		s, err := inspector.Inspect(t.Context(), "x")
		return err == nil && len(s.Readers) == 2 && len(s.Queue) == 1
	}, 10*time.Second, time.Millisecond)
	_, err = a.TryRLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld, "a writer waits")
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))

	writer := <-writers
	require.NotNil(t, writer)
	require.False(t, writer.Shared())
	require.Greater(t, writer.Token(), first.Token())
	readers := make(chan error, 1)
	go func() { readers <- a.RDo(t.Context(), func(context.Context, *redlock.Lease) error { return nil }) }()
	require.NoError(t, writer.Downgrade(t.Context()))
	require.NoError(t, <-readers, "it shares the lock with the writer")
	require.True(t, writer.Valid())
	require.NoError(t, writer.Unlock(t.Context()))
	for i := range 3 {
		assert.Eventually(t, func() bool { _, held := nodes.Get(i, "redlock:x"); return !held }, 10*time.Second, time.Millisecond)
	}
}

// A caller holds two locks of embedded nodes at once, and the holder of one of them keeps it out.
func Example_severalNames() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	accounts := client.Multi([]string{"account-7", "account-3"})
	err = accounts.Do(context.Background(), func(context.Context, *redlock.Lease) error {
		both := 0
		for i := range 3 {
			_, one := nodes.Get(i, "redlock:account-3")
			_, other := nodes.Get(i, "redlock:account-7")
			if one && other {
				both++
			}
		}
		// The lock is held as soon as two of three have it; the third may be about to answer.
		fmt.Println("a majority of the nodes has both keys:", both >= 2)
		return nil
	})
	fmt.Println("done:", err)
	err = client.Mutex("account-3").Do(context.Background(), func(context.Context, *redlock.Lease) error {
		_, err := accounts.TryLock(context.Background())
		fmt.Println("refused, as account-3 is held:", errors.Is(err, redlock.ErrHeld))
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// a majority of the nodes has both keys: true
	// done: <nil>
	// refused, as account-3 is held: true
	// done: <nil>
}

func TestSetsWithACommonNameTakeTurnsAtEmbeddedNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	one, other := openClient(t, nodes), openClient(t, nodes)
	first, err := one.Multi([]string{"a", "b"}).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Extend(t.Context()))
	next := make(chan *redlock.Lease, 1)
	go func() {
		lease, err := other.Multi([]string{"c", "b"}).Lock(t.Context())
		assert.NoError(t, err)
		next <- lease
	}()
	require.Eventually(t, func() bool {
		b, err := one.Inspect(t.Context(), "b")
		require.NoError(t, err)
		c, err := one.Inspect(t.Context(), "c")
		require.NoError(t, err)
		return len(b.Queue) == 1 && len(c.Queue) == 1 && c.Holder == ""
	}, 10*time.Second, time.Millisecond)
	_, err = one.Mutex("c").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld, "a set that wants it waits")
	require.NoError(t, first.Unlock(t.Context()))
	second := <-next
	require.NotNil(t, second)
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Unlock(t.Context()))
	for i := range 3 {
		for _, key := range []string{"redlock:a", "redlock:b", "redlock:c"} {
			assert.Eventually(t, func() bool { _, held := nodes.Get(i, key); return !held }, 10*time.Second, time.Millisecond)
		}
	}
}
