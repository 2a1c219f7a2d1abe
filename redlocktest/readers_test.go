package redlocktest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

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

func TestShareEndsWithItsOwnTTLAtEmbeddedNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := openClient(t, nodes)
	long, err := client.RWMutex("x").RLock(t.Context())
	require.NoError(t, err)
	_, err = client.RWMutex("x", redlock.WithTTL(time.Second), redlock.WithNodeTimeout(400*time.Millisecond), redlock.WithoutRenewal()).RLock(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := client.Inspect(t.Context(), "x")
		return err == nil && len(s.Readers) == 1 && s.Readers[0].Owner == long.Owner()
	}, 10*time.Second, 10*time.Millisecond)
	require.True(t, long.Valid())
	require.NoError(t, long.Unlock(t.Context()))
	require.NoError(t, client.Ping(t.Context()))
}
