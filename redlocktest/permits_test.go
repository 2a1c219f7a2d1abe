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
