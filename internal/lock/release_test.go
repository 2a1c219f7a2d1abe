package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

func TestRollbackGoesToNodesThatMayHoldTheAttempt(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		b := testhook.Lock(net.Mutex(c, "x")).RollBack("me", 0b001)
		var v quorum.Verdict
		took := testnet.Elapsed(func() { v, _ = b.Await(t.Context(), time.Second, nil) })
		require.Equal(t, quorum.Failed, v)
		require.Zero(t, took, "a node that is not asked is not awaited")
		time.Sleep(100 * ms)
		for i, n := range net.Nodes {
			require.Equal(t, i == 0, n.Releases() == 1, "node %d", i)
		}
	})
}

func TestNodeThatWasNotAskedGetsNoUndo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[2].Down()
		synctest.Wait()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Zero(t, testhook.Engine(c).Cluster.Nodes()[2].Undos())
	})
}

// The key there is one that no script of the library can read, and none has set.
func TestNodeWithAKeyOfAnotherTypeGetsNoUndo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		answers := func(cmd string, _ []string) string {
			if cmd == "EVALSHA" {
				return "WRONGTYPE Operation against a key holding the wrong kind of value"
			}
			return ""
		}
		net.Nodes[0].Set(func(n *testnet.Node) { n.Override = answers })
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.Zero(t, testhook.Engine(c).Cluster.Nodes()[0].Undos())
		b := testhook.Lock(net.Mutex(c, "x")).NewRollback("me", "", false, nil)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		b.Send(0b001, false)
		b.Votes[0].Receive(nil, redis.Error("WRONGTYPE Operation against a key"))
		require.Zero(t, testhook.Engine(c).Cluster.Nodes()[0].Undos())
	})
}

// A node says so in its answer to the rollback of the waiter's attempt, and in no other answer.
func TestWaiterGoesOnWhenAQuorumReservesTheLockAtItsRollback(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		l := testhook.Lock(net.Mutex(c, "x"))
		w, err := testhook.Engine(c).Queue().NewWaiter(t.Context(), l.WaitedFor(), 0)
		require.NoError(t, err)
		defer w.Leave()
		requireTurn := func(want error) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			require.ErrorIs(t, w.AwaitTurn(ctx, waitqueue.Standing{Position: 5, Free: time.Minute}), want)
		}
		rollback, attempt, release := l.Yield(w, "me", 0, nil), l.NewAttempt(t.Context(), w), l.NewRollback("me", "", false, nil)
		rollback.Votes[0].Receive(lock.HandedToAnother, nil)
		rollback.Votes[1].Receive(lock.KeptForYou, nil)
		rollback.Votes[1].Receive(lock.KeptForYou, nil)
		attempt.Votes[2].Receive(int64(2), nil) // a token
		release.Votes[2].Receive(lock.KeptForYou, nil)
		requireTurn(context.DeadlineExceeded) // one node is ready
		rollback.Votes[2].Receive(lock.KeptForYou, nil)
		requireTurn(nil)
	})
}

// A holder that waited leaves the wait queue also at nodes that went away before it was
// served.
func TestHolderLeavesTheQueueOfNodesThatWereAway(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		held := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		synctest.Wait() // until all nodes have granted it
		got := net.Begin(b.Mutex("x").Lock)
		time.Sleep(100 * ms)
		net.Nodes[2].Down()
		time.Sleep(100 * ms)
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, testhook.Engine(b).Cluster.Nodes()[2].Undos())
		require.Contains(t, net.Nodes[2].Keys(), "redlock::queue:redlock:x")
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		require.Zero(t, testhook.Engine(b).Cluster.Nodes()[2].Undos())
		net.RequireNoKeys()
		for _, key := range net.Nodes[2].Keys() {
			require.NotContains(t, key, "queue", "no waiter is there any more")
		}
	})
}

// An undo that the server refuses is sent again for a ttl, and then forgotten: the server
// was alive all the while, so the key has ended.
func TestRefusedUndoIsSentAgainForAsLongAsTheAttemptStands(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n, m := testhook.Engine(c).Cluster.Nodes()[0], net.Mutex(c, "x", redlock.WithTTL(5*time.Second))
		net.Nodes[0].Refuse("OOM command not allowed", "release", "releaseall")
		require.True(t, n.Undo(testhook.Lock(m).NewUndo("me", "")))
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, n.Undos())
		require.Greater(t, net.Nodes[0].Releases(), 2)
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
		tries := net.Nodes[0].Releases()
		time.Sleep(3 * time.Second)
		require.Equal(t, tries, net.Nodes[0].Releases())

		// A position in the wait queue stands for longer than a key.
		require.True(t, n.Undo(testhook.Lock(m).NewUndo("me", testnet.FirstTicket)))
		time.Sleep(protocol.QueueTTL - time.Second)
		require.Equal(t, 1, n.Undos())
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
	})
}

// The key came to the node by a renewal; the client records the undo of its release all the same.
func TestReleaseIsUndoneAtANodeThatARenewalHealed(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[2].Down()
		synctest.Wait()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(lease))
		net.Nodes[2].Down()
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes()[2].Undos())
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		net.RequireNoKeys()
	})
}

func TestAllUndosAreConfirmed(t *testing.T) {
	testnet.OfEachKind(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n := testhook.Engine(c).Cluster.Nodes()[0]
		undo := func() {
			for i := range 3 {
				n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo(fmt.Sprint(i), ""))
			}
		}
		net.Nodes[0].Down()
		synctest.Wait()
		undo()
		net.Nodes[0].Up()
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos(), "on the next connection")

		net.Nodes[0].Refuse("OOM command not allowed", "release", "releaseall")
		undo()
		time.Sleep(time.Second)
		require.Equal(t, 3, n.Undos())
		net.Nodes[0].Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(2 * testhook.Engine(c).NodeTimeout) // half of the time that it awaits an answer
		require.Zero(t, n.Undos(), "after refusals")
	})
}

// isRelease reports whether a node is asked to release, by the script's name or its text.
func isRelease(cmd string, args []string) bool {
	return testnet.IsScript(cmd, args, protocol.Release, protocol.ReleaseAll)
}

func TestUndoIsSentWithTheScriptsTextOnlyIfTheServerForgotTheScript(t *testing.T) {
	testnet.OfEachKind(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n := testhook.Engine(c).Cluster.Nodes()[0]
		var sent []string // commands by which the node was asked to release
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if isRelease(cmd, args) {
					sent = append(sent, cmd)
				}
				return ""
			}
		})
		require.True(t, n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo("me", "")))
		synctest.Wait()
		require.Zero(t, n.Undos())
		require.Equal(t, []string{"EVALSHA"}, sent)

		conn := testnet.Dial(t, net.Nodes[0])
		defer conn.Close()
		_, err := conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.True(t, n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo("me", "")))
		synctest.Wait()
		require.Zero(t, n.Undos())
		require.Equal(t, []string{"EVALSHA", "EVALSHA", "EVAL"}, sent)
	})
}

func TestClientThatHandsALockOverLetsTheWaiterGoFirst(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		net.Delay(10 * ms)
		for _, waited := range []bool{false, true} {
			lease := net.Must(a.Mutex("x").Lock(t.Context()))
			got := make(chan *redlock.Lease, 1)
			if waited {
				go func() {
					lease, _ := b.Mutex("x").Lock(t.Context())
					got <- lease
				}()
				time.Sleep(time.Second)
			}
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, waited, testhook.Engine(a).HandoffPause("redlock:x") == 30*ms)
			if waited {
				require.NoError(t, (<-got).Unlock(t.Context()))
			}
		}
	})
}

func TestReleaseIsAHandoffIfAQuorumReservesTheKey(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		held := net.Must(c.Mutex("x").Lock(t.Context()))
		l, g := testhook.Lock(c.Mutex("x")), &testhook.Lease(held).Grant
		b := l.BeginRelease(t.Context(), g, lease.Ending{At: testhook.Engine(c).Clock()})
		time.Sleep(ms) // a handoff pauses callers for as long as the release took
		for handed := range 6 {
			l.Released(g, b)
			require.Equal(t, handed >= 3, testhook.Engine(c).HandoffPause("redlock:x") > 0, "%d of 5", handed)
			if handed < 5 {
				b.Votes[handed].Count(quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.HandedOff})
			}
		}
	})
}
