package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestWaitReadyReturnsAtTheEndOfANewClustersGuard(t *testing.T) {
	const guard = 10 * time.Second
	for n := 1; n <= 5; n++ {
		testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
			c := net.NewClient(redlock.WithRestartGuard(guard))
			net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
			took := testnet.Elapsed(func() { require.NoError(t, c.WaitReady(t.Context())) })
			require.InDelta(t, guard, took, float64(100*ms))
			lease := net.Must(c.Mutex("x").TryLock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))

			require.Zero(t, testnet.Elapsed(func() { require.NoError(t, c.WaitReady(t.Context())) }))
			next := net.NewClient(redlock.WithRestartGuard(guard))
			require.Less(t, testnet.Elapsed(func() { require.NoError(t, next.WaitReady(t.Context())) }), time.Second, "a guard is awaited once for all clients")
		})
	}
}

// While a majority is away or frozen it waits, and a minority does not keep it waiting.
func TestWaitReadyWaitsForAMajorityThatIsAway(t *testing.T) {
	for what, c := range map[string]struct{ leave, back func(n *testnet.Node) }{
		"down":   {(*testnet.Node).Down, (*testnet.Node).Up},
		"frozen": {(*testnet.Node).Freeze, (*testnet.Node).Thaw},
	} {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			client := net.Client(redlock.WithNodeTimeout(100 * ms))
			for _, n := range net.Nodes[:3] {
				c.leave(n)
			}
			time.Sleep(10 * ms)
			took := testnet.Elapsed(func() {
				go func() {
					time.Sleep(time.Minute)
					c.back(net.Nodes[1])
				}()
				require.NoError(t, client.WaitReady(t.Context()), what)
			})
			require.GreaterOrEqual(t, took, time.Minute, what)
			require.Less(t, took, time.Minute+2*time.Second, what)
			c.back(net.Nodes[0])
			c.back(net.Nodes[2])
		})
	}
}

// It asks at most once in a node timeout while nothing changes.
func TestWaitReadyAsksSeldom(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithNodeTimeout(100 * ms))
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		time.Sleep(10 * ms)
		before := net.Nodes[2].Executed("ping")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, c.WaitReady(ctx), context.DeadlineExceeded)
		require.LessOrEqual(t, net.Nodes[2].Executed("ping")-before, 150, "beside the client's own looks")
	})
}

func TestWaitReadyEndsWithItsContextOrTheClient(t *testing.T) {
	cause := errors.New("enough")
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.NewClient(redlock.WithRestartGuard(time.Hour))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		took := testnet.Elapsed(func() {
			err := c.WaitReady(ctx)
			require.ErrorIs(t, err, cause)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "redlock: wait: enough while waiting; last attempt: ping: no quorum")
			var q *redlock.QuorumError
			require.ErrorAs(t, err, &q)
			require.InDelta(t, 59*time.Minute, q.RetryAfter, float64(2*time.Second))
		})
		require.Equal(t, time.Minute, took)

		closed := make(chan error)
		go func() { closed <- c.WaitReady(t.Context()) }()
		synctest.Wait()
		go func() { _ = c.Close() }()
		require.ErrorIs(t, <-closed, redlock.ErrClosed)
		require.ErrorIs(t, c.WaitReady(t.Context()), redlock.ErrClosed)
	})
}

// Nodes that vote only when a person has acted are not awaited.
func TestWaitReadyFailsAtOnceWhereWaitingCannotHelp(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes[:2] {
			n.Role = "slave"
		}
		c := net.NewClient()
		var err error
		require.Less(t, testnet.Elapsed(func() { err = c.WaitReady(t.Context()) }), 5*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "replica")

		calls := 0 // of a loop without a pause
		for began := time.Now(); time.Since(began) < 10*time.Second && calls < 1000; calls++ {
			require.ErrorIs(t, c.WaitReady(t.Context()), redlock.ErrNoQuorum)
		}
		require.LessOrEqual(t, calls, 101)
	})
}

func ExampleClient_WaitReady() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	if err := client.WaitReady(ctx); err != nil {
		log.Fatal(err) // which names each node's cause
	}
	_, err := client.Mutex("invoice-42").TryLock(ctx) // a new cluster is ready too
	fmt.Println(err)
	// Output: <nil>
}
