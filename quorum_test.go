package redlock_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Ballots that fail, or are answered late, leave no keys behind.

func TestCancelledAttemptLeavesNoKeys(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 20 * ms })
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(60*ms))
			lease, err := c.Mutex("x").Lock(ctx)
			if err == nil {
				require.NoError(t, lease.Unlock(ctx), "a cancelled ctx does not keep Unlock from releasing")
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			cancel()
			time.Sleep(50 * ms)
			net.RequireNoKeys()
		}
	})
}

func TestThawedNodeKeepsNoKeys(t *testing.T) {
	for name, frozen := range map[string]time.Duration{
		"while connected":               300 * ms,
		"after the connection was lost": 5 * time.Second,
		"after the ttl":                 25 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				net.Nodes[2].Freeze()
				lease := net.Must(c.Mutex("granted").Lock(t.Context()))
				require.NoError(t, lease.Unlock(t.Context()))
				net.Nodes[1].Freeze()
				net.NoQuorum(c.Mutex("failed").TryLock(t.Context()))
				lapsing, err := c.Mutex("lapsing", redlock.WithTTL(time.Second)).TryLock(t.Context())
				require.Error(t, err)
				require.Nil(t, lapsing)

				time.Sleep(frozen)
				net.Nodes[1].Thaw()
				net.Nodes[2].Thaw()
				time.Sleep(2 * time.Second)
				net.RequireNoKeys()
			})
		})
	}
}

func TestExpiredLeaseIsReleasedAtANodeThatGrantsItLater(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[2].Freeze()
		lease := net.Must(c.Mutex("x", redlock.WithTTL(time.Second), redlock.WithoutRenewal()).Lock(t.Context()))
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		time.Sleep(200 * ms)
		net.Nodes[2].Thaw()
		net.RequireNoKeys()
	})
}

func TestAttemptWithALostReplyIsUndoneOnTheNextConnection(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[:2].Mute() // executed, but the answers are held, and lost with the link
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		net.NoQuorum(c.Mutex("x").Lock(ctx))
		for _, n := range net.Nodes[:2] {
			n.Cut()
			require.NoError(t, n.Redis.Set("redlock:ghost", "of another client"))
		}
		time.Sleep(time.Second)
		for _, n := range net.Nodes[:2] {
			n.Redis.Del("redlock:ghost")
			require.Zero(t, c.Stats().Nodes[n.Index].Undos)
		}
		net.RequireNoKeys()
	})
}

func TestGrantedLeaseIsNotUndoneWhereItsReplyWasLost(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[0].Mute()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		net.Nodes[0].Cut()
		time.Sleep(time.Second)
		require.Equal(t, 3, net.Holders(lease), "the node whose answer was lost has the lease's key")
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestFlushedScriptsAreLoadedAgain(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		flush := func() {
			for _, n := range net.Nodes {
				conn := testnet.Dial(t, n)
				_, err := conn.Do("SCRIPT", "FLUSH")
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}
		}
		flush()
		lease := net.Must(c.Mutex("x").TryLock(t.Context()))
		flush()
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
		lease = net.Must(c.Mutex("x").TryLock(t.Context()))
		flush()
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLateRollbackSparesANewerLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		old := net.Must(a.Mutex("x", redlock.WithTTL(time.Second), redlock.WithoutRenewal()).Lock(t.Context()))
		<-old.Done()
		time.Sleep(100 * ms)
		newer := net.Must(b.Mutex("x").Lock(t.Context()))
		require.ErrorIs(t, old.Unlock(t.Context()), redlock.ErrLost)
		testhook.Lock(a.Mutex("x")).NewRollback(old.Owner(), "", false, nil).Send(0b111, false)
		time.Sleep(100 * ms)
		require.Equal(t, 3, net.Holders(newer))
		require.NoError(t, newer.Unlock(t.Context()))
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}

func TestStalledNodeGetsNoAttemptsUntilItAnswers(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		frozen := net.Nodes[0]
		frozen.Freeze()
		lock := func() {
			lease := net.Must(c.Mutex("x").Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lock()
		time.Sleep(testhook.Engine(c).NodeTimeout + ms)
		for range 100 {
			lock()
		}
		frozen.Thaw()
		synctest.Wait()
		require.Equal(t, 1, frozen.Executed("acquire"), "only the one before it was known to be stalled")
		require.Equal(t, 1, frozen.Executed("release"), "a node that was not asked needs no undo")
		lock()
		synctest.Wait()
		require.Equal(t, 2, frozen.Executed("acquire"))
		net.RequireNoKeys()
	})
}

func TestNewerServersNameTheHolderInTheReplyToSet(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes[:4] {
			n.Version = "7.0.15"
		}
		for _, n := range net.Nodes {
			n.Delay = 5 * ms
		}
		a, b := net.Client(redlock.WithoutFencing()), net.Client(redlock.WithoutFencing())
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.Equal(t, 5, net.Holders(lease))
		for _, n := range net.Nodes {
			require.Equal(t, 1, n.Executed("claim")+n.Executed("acquire"))
		}

		held := net.Held(b.Mutex("x").TryLock(t.Context()))
		require.Equal(t, lease.Owner(), held.Holder)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(100*ms))

		net.Nodes[0].Redis.FlushAll()
		net.Nodes[1].Redis.FlushAll()
		net.Nodes[2].Redis.FlushAll()
		other := net.Must(b.Mutex("x").TryLock(t.Context()))
		require.NoError(t, other.Unlock(t.Context()))
		_ = lease.Unlock(t.Context())
		time.Sleep(20 * ms)
		net.RequireNoKeys()
	})
}

func TestServerWithoutSetGetIsAskedForTheHolderByGet(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Version = "7.0.0-of-another-kind"
			n.Override = func(cmd string, args []string) string {
				if cmd == "SET" && args[len(args)-1] == "GET" {
					return "ERR syntax error"
				}
				return ""
			}
		}
		c := net.Client(redlock.WithoutFencing())
		net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
		lease := net.Must(c.Mutex("x").TryLock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestPausedProcessKeepsItsConnections(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 300 * ms })
		go func() {
			time.Sleep(400 * ms) // the answers are on their way
			net.Clock.Sleep(time.Minute)
		}()
		net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
		time.Sleep(2 * time.Second)
		net.Nodes.Set(func(n *testnet.Node) { require.Len(t, n.Links, 1) })
	})
}

func TestCloseDoesNotWaitForAHandshake(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Freeze()
		c := net.NewClient()
		time.Sleep(100 * ms)
		require.LessOrEqual(t, testnet.Elapsed(func() { _ = c.Close() }), testhook.Engine(c).NodeTimeout)
	})
}
