package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// faults make a majority unfit until a person acts.
var faults = map[string]func(n *testnet.Node){
	"a wrong password": func(n *testnet.Node) { n.Refusing = redis.Error("WRONGPASS no") },
	"a wrong list":     func(n *testnet.Node) { n.Role = "slave" },
}

// spin makes calls in a loop for a time, and returns how long each took. It gives up after so many calls as no loop may
// make.
func spin(t *testing.T, call func(context.Context) (*redlock.Lease, error), period time.Duration) (took []time.Duration) {
	for began := time.Now(); time.Since(began) < period && len(took) < 10_000; {
		took = append(took, testnet.Elapsed(func() {
			lease, err := call(t.Context())
			assert.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Nil(t, lease)
		}))
	}
	return took
}

// testEightLoops checks that loops around calls of one client do not spin where a person must act: no call takes longer
// than longest, each loop makes about so many calls in twenty seconds, and all loops together ten attempts a second.
func testEightLoops(t *testing.T, longest time.Duration, calls, give float64,
	method func(*redlock.Mutex, context.Context) (*redlock.Lease, error)) {
	const perSecond, seconds = 10, 20
	for what, fault := range faults {
		testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
			net.Nodes[:2].Set(fault)
			c := net.NewClient()
			m := net.Mutex(c, "x", redlock.WithNodeTimeout(20*ms))
			call := func(ctx context.Context) (*redlock.Lease, error) { return method(m, ctx) }
			_, err := call(t.Context()) // connects
			require.ErrorIs(t, err, redlock.ErrNoQuorum, what)
			time.Sleep(time.Second)
			before := c.Stats().NoQuorum
			var running sync.WaitGroup
			for range 8 {
				running.Go(func() {
					took := spin(t, call, seconds*time.Second)
					assert.LessOrEqual(t, slices.Max(took), longest, what)
					assert.InDelta(t, calls, len(took), give, "%s: calls of one loop", what)
				})
			}
			running.Wait()
			require.LessOrEqual(t, int(c.Stats().NoQuorum-before), perSecond*seconds+1, "%s: attempts of eight loops", what)
		})
	}
}

// A Lock waits for its turn to ask for 100 ms at most.
func TestLoopsAroundLockDoNotSpinWhereAPersonMustAct(t *testing.T) {
	testEightLoops(t, 101*ms-1, 200, 1, (*redlock.Mutex).Lock)
}

// A TryLock waits for its turn to ask for one node timeout at most.
func TestLoopsAroundTryLockDoNotSpinWhereAPersonMustAct(t *testing.T) {
	testEightLoops(t, 20*ms, 1000, 60, (*redlock.Mutex).TryLock)
}

// The first failure comes at once, and so does the lock once the person has acted.
func TestOnlyLoopsAreSlowedWhereAPersonMustAct(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes[:2] {
			n.Set(faults["a wrong password"])
			n.Cut()
		}
		time.Sleep(time.Second)
		m := c.Mutex("x")
		lock := func(ctx context.Context) (err error) { _, err = m.Lock(ctx); return err }
		require.Zero(t, testnet.Elapsed(func() { require.ErrorIs(t, lock(t.Context()), redlock.ErrNoQuorum) }))
		require.Equal(t, 50*ms, testnet.Elapsed(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
			defer cancel()
			err := lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}))

		net.Nodes[:2].Up()
		require.Less(t, testnet.Elapsed(func() {
			for lock(t.Context()) != nil { // until the client has connected anew
			}
		}), time.Minute)
		require.Less(t, testnet.Elapsed(func() {
			lease := net.Must(c.Mutex("y").Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		}), 10*ms)
	})
}

// Once a person has acted, no call gets the refusal of before, or waits for its turn, though no attempt has been made since.
func TestNoCallIsSlowedAfterAPersonHasActed(t *testing.T) {
	const way = 60 * ms // longer than FailurePause, there and back
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes[:2] {
			n.Set(faults["a wrong password"])
			n.Cut()
		}
		time.Sleep(time.Second)
		net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
		net.Nodes[:2].Up()
		net.Delay(way)
		time.Sleep(time.Minute)
		require.NoError(t, c.WaitReady(t.Context()))
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				assert.Equal(t, 2*way, testnet.Elapsed(func() {
					_, err := c.Mutex(fmt.Sprint(i)).TryLock(t.Context())
					assert.NoError(t, err)
				}))
			})
		}
		all.Wait()
	})
}
