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
	"github.com/redlock-go/redlock/redlocktest"
)

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
