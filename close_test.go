package redlock

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Tests of Close: what it waits for, and which keys it leaves.

// Close must wait on a channel or wait group: virtual time would stand still while it
// waits on a mutex, and this test would hang.
func TestCloseAwaitsAnAttemptThatIsUnderWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			n.freeze()
		}
		ended := make(chan error, 1)
		go func() {
			_, err := c.Mutex("x").TryLock(t.Context())
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, ErrNoQuorum, "it was over before Close returned")
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
}

// closeBeforeDo closes the client between the grant to a Do and the call of its fn.
func closeBeforeDo(t *testing.T, c *Client, lease *Lease) {
	require.NoError(t, c.Close())
	require.ErrorIs(t, lease.do(t.Context(), func(context.Context, *Lease) error {
		require.Fail(t, "its lease has ended")
		return nil
	}), ErrClosed)
}

func TestDroppedLeaseIsReleasedIfCloseCameBeforeItsDo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		lease, _, _ := handOver(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {})
		closeBeforeDo(t, b, lease)
		lease.h.abandon() // as the garbage collector does
		require.ErrorIs(t, lease.Err(), ErrClosed)
		net.requireNoKeys()
	})
}

// The garbage collector does not run on virtual time, so this one does not.
func TestHandleIsCollectedIfCloseCameBeforeItsDo(t *testing.T) {
	net := &testNet{t: t, clock: &testClock{origin: time.Now()}}
	for i := range 3 {
		net.nodes = append(net.nodes, newTestNode(t, i))
	}
	defer net.stop()
	c := net.client()
	gone := make(chan struct{})
	h := func() *holding {
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		h := lease.h
		h.mu.Lock()
		b := h.renew() // from the first renewal on, a handle may be dropped
		h.mu.Unlock()
		b.Flush(false)
		closeBeforeDo(t, c, lease)
		runtime.AddCleanup(lease, func(gone chan struct{}) { close(gone) }, gone)
		return h
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}, 5*time.Second, 10*ms)
	require.ErrorIs(t, h.why(), ErrClosed)
}

// The grant came so late that its validity ends before the Do begins.
func TestADoWhoseLeaseIsOverBeforeItBeginsReleasesIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.clock.sleep(time.Minute) // the machine was suspended: no timer has run
		require.ErrorIs(t, lease.do(t.Context(), func(context.Context, *Lease) error {
			require.Fail(t, "its lease has ended")
			return nil
		}), ErrLost)
		require.Empty(t, c.kept())
		net.requireNoKeys()
	})
}

// manyLeases acquires locks, far more than a connection carries at once.
func manyLeases(t *testing.T, c *Client, n int) {
	for i := range n {
		_, err := c.Mutex(fmt.Sprintf("lock %d", i)).Lock(t.Context())
		require.NoError(t, err)
	}
}

// closing closes a client in the background.
func closing(c *Client) (closed <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Close()
	}()
	return done
}

// A connection carries about five hundred releases in a round trip: so Close takes
// longer than a node timeout.
func TestCloseReleasesMoreLeasesThanFitIntoANodeTimeout(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(10 * time.Minute))
		manyLeases(t, c, 700)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 240 * ms })
		}
		took := elapsed(func() { require.NoError(t, c.Close()) })
		net.requireNoKeys()
		require.Greater(t, took, c.opts.voteTimeout())
		require.Less(t, took, 3*time.Second)
	})
}

func TestCloseAwaitsAFrozenNodeForOneNodeTimeoutInAll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(10 * time.Minute))
		manyLeases(t, c, tries(500, 2500)) // more than are under way at once
		net.nodes[0].freeze()
		took := elapsed(func() { require.NoError(t, c.Close()) })
		require.GreaterOrEqual(t, took, c.opts.voteTimeout())
		require.LessOrEqual(t, took, c.opts.voteTimeout()*5/4)
		net.nodes[0].redis.FlushAll()
		net.requireNoKeys()
	})
}

func TestCloseAwaitsANodeWhoseConnectionBreaks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(10 * time.Minute))
		manyLeases(t, c, 1100)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * ms })
		}
		closed := closing(c)
		time.Sleep(50 * ms)
		net.nodes[0].cut()
		<-closed
		net.requireNoKeys()
	})
}

// The nodes refuse the releases, which are sent once more with the script's text.
func TestCloseAwaitsReleasesThatAreSentOnceMore(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		manyLeases(t, c, 10)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 100 * ms })
			_, err := dialTest(t, n).Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		net.requireNoKeys()
	})
}

func TestCloseDoesNotAwaitANodeThatIsDown(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		manyLeases(t, c, 10)
		net.nodes[0].down()
		synctest.Wait()
		require.Zero(t, elapsed(func() { require.NoError(t, c.Close()) }))
	})
}

// The nodes make progress until the end, and no key lasts for longer.
func TestCloseAwaitsAtMostTheLongestTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(600*ms), WithNodeTimeout(250*ms), WithoutRenewal())
		manyLeases(t, c, 1100)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 120 * ms })
		}
		took := elapsed(func() { require.NoError(t, c.Close()) })
		require.GreaterOrEqual(t, took, 600*ms)
		require.Less(t, took, 700*ms)
	})
}

// The connection breaks while Close awaits nothing but this node.
func TestCloseAwaitsTheOnlyNodeThatIsBehindThoughItsConnectionBreaks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(10 * time.Minute))
		manyLeases(t, c, 1500)
		net.nodes[0].set(func(n *testNode) { n.delay = 20 * ms })
		closed := closing(c)
		time.Sleep(30 * ms)
		net.nodes[0].cut()
		<-closed
		net.requireNoKeys()
	})
}
