package lease_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// These tests show for which nodes and calls Close waits, and which keys it leaves.

// Close must wait on a channel or wait group: virtual time would stand still while it
// waits on a mutex, and this test would hang.
func TestCloseAwaitsAnAttemptThatIsUnderWay(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes.Freeze()
		ended := make(chan error, 1)
		go func() {
			_, err := net.Mutex(c, "x").TryLock(t.Context())
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, redlock.ErrNoQuorum, "it was over before Close returned")
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

// closeBeforeDo closes the client between the grant to a Do and the call of its fn, which the
// Do does not call then.
func closeBeforeDo(t *testing.T, c *redlock.Client, held *lease.Handle) {
	require.NoError(t, c.Close())
	end := held.Work()
	require.NotNil(t, end)
	require.ErrorIs(t, end.Err, redlock.ErrClosed)
}

func TestCloseReleasesALeaseWhoseDoHasNotBegun(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, _, _ := testnet.HandOff(t, net, net.Mutex(a, "x"), b.Mutex("x"), 60*ms, func() {})
		closeBeforeDo(t, b, testhook.Handle(lease))
		require.ErrorIs(t, lease.Err(), redlock.ErrClosed)
		net.RequireNoKeys()
	})
}

func TestHandleIsCollectedIfCloseCameBeforeItsDo(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	c := net.Client(redlock.WithRenewEvery(ms))
	gone := make(chan struct{})
	held := func() lease.Handle {
		l, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		for net.Nodes[0].Renewals() == 0 { // from the first renewal on, a handle may be dropped
			time.Sleep(ms)
		}
		held := *testhook.Handle(l) // a copy, which does not keep l
		closeBeforeDo(t, c, &held)
		runtime.AddCleanup(l, func(gone chan struct{}) { close(gone) }, gone)
		return held
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
	time.Sleep(20 * ms) // the collected handle has no second end
	require.ErrorIs(t, held.End().Err, redlock.ErrClosed)
	for _, n := range net.Nodes {
		require.NotContains(t, n.Keys(), "redlock:x")
	}
}

// The grant came so late that its validity ends before the Do begins.
func TestDoReleasesALeaseThatIsOverBeforeItBegins(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Clock.Sleep(time.Minute) // the machine was suspended: no timer has run
		end := testhook.Handle(lease).Work()
		require.NotNil(t, end)
		require.ErrorIs(t, end.Err, redlock.ErrLost)
		require.Zero(t, testhook.Engine(c).Renewer.Len())
		net.RequireNoKeys()
	})
}

// manyLeases acquires locks, far more than a connection carries at once.
func manyLeases(t *testing.T, c *redlock.Client, n int) {
	for i := range n {
		_, err := c.Mutex(fmt.Sprintf("lock %d", i)).Lock(t.Context())
		require.NoError(t, err)
	}
	synctest.Wait() // all nodes have them, not a quorum alone
}

// closeInBackground closes a client in a goroutine.
func closeInBackground(c *redlock.Client) (closed <-chan struct{}) {
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
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(10 * time.Minute))
		manyLeases(t, c, 700)
		net.Delay(240 * ms)
		took := testnet.Elapsed(func() { require.NoError(t, c.Close()) })
		net.RequireNoKeys()
		require.Greater(t, took, testhook.Engine(c).NodeTimeout)
		require.Less(t, took, 3*time.Second)
	})
}

func TestCloseAwaitsAFrozenNodeForOneNodeTimeoutInAll(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(10 * time.Minute))
		manyLeases(t, c, testnet.Tries(500, 2500)) // more than are under way at once
		net.Nodes[0].Freeze()
		took := testnet.Elapsed(func() { require.NoError(t, c.Close()) })
		require.GreaterOrEqual(t, took, testhook.Engine(c).NodeTimeout)
		require.LessOrEqual(t, took, testhook.Engine(c).NodeTimeout*5/4)
		net.Nodes[0].Redis.FlushAll()
		net.RequireNoKeys()
	})
}

func TestCloseAwaitsANodeWhoseConnectionBreaks(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(10 * time.Minute))
		manyLeases(t, c, 1100)
		net.Delay(20 * ms)
		closed := closeInBackground(c)
		time.Sleep(50 * ms)
		net.Nodes[0].Cut()
		<-closed
		net.RequireNoKeys()
	})
}

// The nodes lack the script, so the client sends the releases once more with its text.
func TestCloseAwaitsReleasesThatAreSentOnceMore(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		manyLeases(t, c, 10)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = 100 * ms })
			_, err := testnet.Dial(t, n).Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		net.RequireNoKeys()
	})
}

func TestCloseDoesNotAwaitANodeThatIsDown(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		manyLeases(t, c, 10)
		net.Nodes[0].Down()
		synctest.Wait()
		require.LessOrEqual(t, testnet.Elapsed(func() { require.NoError(t, c.Close()) }), ms)
	})
}

// The nodes make progress until the end, but no key lasts for longer than its ttl.
func TestCloseAwaitsAtMostTheLongestTTL(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(600*ms), redlock.WithNodeTimeout(250*ms), redlock.WithoutRenewal())
		manyLeases(t, c, 1100)
		net.Delay(120 * ms)
		took := testnet.Elapsed(func() { require.NoError(t, c.Close()) })
		require.GreaterOrEqual(t, took, 600*ms)
		require.Less(t, took, 700*ms)
	})
}

// The connection breaks while Close awaits nothing but this node.
func TestCloseAwaitsTheOnlyNodeThatIsBehindThoughItsConnectionBreaks(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(10 * time.Minute))
		manyLeases(t, c, 1500)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Delay = 20 * ms })
		closed := closeInBackground(c)
		time.Sleep(30 * ms)
		net.Nodes[0].Cut()
		<-closed
		net.RequireNoKeys()
	})
}

// The node's goroutine awaits the counters of silent nodes, and so does not notice for a while
// that the connection broke.
func TestCloseAwaitsABrokenConnectionForANodeTimeout(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(time.Second))
		timeout := testhook.Engine(c).NodeTimeout
		net.Nodes[0].Redis.FlushAll()
		net.Must(net.Mutex(c, "x").Lock(t.Context()))
		time.Sleep(900 * ms)
		net.Nodes[1].Freeze()
		net.Nodes[2].Freeze()
		time.Sleep(200 * ms) // the quarantine of the node that forgot is over
		net.Nodes[0].Cut()
		took := testnet.Elapsed(func() { require.NoError(t, c.Close()) })
		require.LessOrEqual(t, took, 2*timeout*5/4, "another one is for the silent nodes")
	})
}
