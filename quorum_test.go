package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Ballots that fail, or are answered late, leave nothing behind.

func TestACancelledBallotLeavesNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * time.Millisecond })
		}
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(60*time.Millisecond))
			lease, err := c.Mutex("x").Lock(ctx)
			if err == nil {
				require.NoError(t, lease.Unlock(ctx), "a cancelled ctx does not keep Unlock from releasing")
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			cancel()
			time.Sleep(50 * time.Millisecond)
			net.requireNoKeys()
		}
	})
}

func TestAMissedQuorumLeavesNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		for i, n := range net.nodes[:3] {
			require.NoError(t, n.redis.Set("redlock:x", fmt.Sprint("foreign", i)))
		}
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum, "three owners of a node each hold nothing")
		for _, n := range net.nodes[:3] {
			n.redis.Del("redlock:x")
		}
		net.requireNoKeys()
	})
}

func TestTheLateGrantOfASlowNodeIsUndone(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[4].set(func(n *testNode) { n.delay = 200 * time.Millisecond })
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()), "before the slow node has the request")
		require.Zero(t, net.nodes[4].executed("acquire"))
		time.Sleep(time.Second)
		require.Equal(t, 1, net.nodes[4].executed("acquire"))
		net.requireNoKeys()
	})
}

func TestAThawedNodeForgetsWhatItSlept(t *testing.T) {
	for name, frozen := range map[string]time.Duration{
		"while connected":               300 * time.Millisecond,
		"after the connection was lost": 5 * time.Second,
		"after the ttl":                 25 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				c := net.client()
				net.nodes[2].freeze()
				lease, err := c.Mutex("granted").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				net.nodes[1].freeze()
				_, err = c.Mutex("failed").TryLock(t.Context())
				require.ErrorIs(t, err, ErrNoQuorum)
				lapsing, err := c.Mutex("lapsing", WithTTL(time.Second)).TryLock(t.Context())
				require.Error(t, err)
				require.Nil(t, lapsing)

				time.Sleep(frozen)
				net.nodes[1].thaw()
				net.nodes[2].thaw()
				time.Sleep(2 * time.Second)
				net.requireNoKeys()
			})
		})
	}
}

func TestALeaseThatLapsesIsReleasedAtANodeThatExecutesItLater(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[2].freeze()
		lease, err := c.Mutex("x", WithTTL(time.Second), WithoutRenewal()).Lock(t.Context())
		require.NoError(t, err)
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), ErrLost)
		time.Sleep(200 * time.Millisecond)
		net.nodes[2].thaw()
		net.requireNoKeys()
	})
}

func TestALostReplyIsPaidForOnTheNextConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes[:2] {
			n.mute() // executed, but the answers are held, and lost with the link
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, ErrNoQuorum)
		for _, n := range net.nodes[:2] {
			n.cut()
			require.NoError(t, n.redis.Set("redlock:ghost", "of another client"))
		}
		time.Sleep(time.Second)
		for _, n := range net.nodes[:2] {
			n.redis.Del("redlock:ghost")
			require.Zero(t, c.nodes[n.index].Undos())
		}
		net.requireNoKeys()
	})
}

func TestALostReplyOfAGrantedLeaseOwesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[0].mute()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[0].cut()
		time.Sleep(time.Second)
		require.Equal(t, 3, net.holders(lease), "the held lease stands where its answer was lost")
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestFlushedScriptsAreLoadedAgain(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		flush := func() {
			for _, n := range net.nodes {
				conn := dialTest(t, n)
				_, err := conn.Do("SCRIPT", "FLUSH")
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}
		}
		flush()
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		flush()
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
		lease, err = c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		flush()
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestALateReleaseSparesANewerLease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		old, err := a.Mutex("x", WithTTL(time.Second), WithoutRenewal()).Lock(t.Context())
		require.NoError(t, err)
		<-old.Done()
		time.Sleep(100 * time.Millisecond)
		newer, err := b.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, old.Unlock(t.Context()), ErrLost)
		a.Mutex("x").undo(old.Owner(), 0b111, nil, false)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 3, net.holders(newer))
		require.NoError(t, newer.Unlock(t.Context()))
		time.Sleep(100 * time.Millisecond)
		net.requireNoKeys()
	})
}

func TestAStalledNodeGetsNoAttemptsUntilItAnswers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		frozen := net.nodes[0]
		frozen.freeze()
		lock := func() {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lock()
		time.Sleep(c.opts.voteTimeout() + time.Millisecond)
		for range 100 {
			lock()
		}
		frozen.thaw()
		synctest.Wait()
		require.Equal(t, 1, frozen.executed("acquire"), "only the one before it was known to be stalled")
		require.Equal(t, 1, frozen.executed("release"), "who was not asked is owed nothing")
		lock()
		synctest.Wait()
		require.Equal(t, 2, frozen.executed("acquire"))
		net.requireNoKeys()
	})
}

func TestThePoolsOwnDialMayHang(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		release := make(chan struct{})
		hanging := hangingPool{net.nodes[0], release}
		c, err := New([]Pool{hanging, net.nodes[1], net.nodes[2]}, WithRestartGuard(0), WithLogger(nil), withClock(net.clock.now))
		require.NoError(t, err)
		took := elapsed(func() {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		})
		require.LessOrEqual(t, took, c.opts.voteTimeout())
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, c.nodes[0].Why(), "no connection within")
		require.NoError(t, c.Close())
		close(release)
	})
}

func TestNewerServersTellTheHolderBySet(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes[:4] {
			n.version = "7.0.15"
		}
		for _, n := range net.nodes {
			n.delay = 5 * time.Millisecond
		}
		a, b := net.client(WithFencing(false)), net.client(WithFencing(false))
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, net.holders(lease))
		for _, n := range net.nodes {
			require.Equal(t, 1, n.executed("claim")+n.executed("acquire"))
		}

		_, err = b.Mutex("x").TryLock(t.Context())
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, lease.Owner(), held.Holder)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(100*time.Millisecond))

		net.nodes[0].redis.FlushAll()
		net.nodes[1].redis.FlushAll()
		net.nodes[2].redis.FlushAll()
		other, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		_ = lease.Unlock(t.Context())
		time.Sleep(20 * time.Millisecond)
		net.requireNoKeys()
	})
}

func TestAServerWhoseSetDoesNotTellTheHolderIsAskedByGet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes {
			n.version = "7.0.0-of-another-kind"
			n.override = func(cmd string, args []string) string {
				if cmd == "SET" && args[len(args)-1] == "GET" {
					return "ERR syntax error"
				}
				return ""
			}
		}
		c := net.client(WithFencing(false))
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestAPauseOfTheProcessDoesNotCostItsConnections(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 300 * time.Millisecond })
		}
		go func() {
			time.Sleep(400 * time.Millisecond) // the answers are on their way
			net.clock.sleep(time.Minute)
		}()
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(2 * time.Second)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { require.Len(t, n.links, 1) })
		}
	})
}

func TestCloseDoesNotWaitForAHandshake(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].freeze()
		c := net.newClient()
		time.Sleep(100 * time.Millisecond)
		require.LessOrEqual(t, elapsed(func() { _ = c.Close() }), c.opts.voteTimeout())
	})
}

func TestTheClientKillsItsOldConnectionBeforePayingItsDebts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		n := net.nodes[0]
		n.freeze()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		n.set(func(n *testNode) { n.log = nil })
		time.Sleep(4 * time.Second) // the connection was dropped
		n.thaw()
		time.Sleep(time.Second)
		n.set(func(n *testNode) {
			kill, release := -1, -1
			for i, l := range n.log {
				if l == "client kill" {
					kill = i
				}
				if l == "release" {
					release = i
				}
			}
			require.Positive(t, kill)
			require.Greater(t, release, kill)
		})
		net.requireNoKeys()
	})
}
