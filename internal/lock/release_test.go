package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/lock"
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Zero(t, testhook.Engine(c).Cluster.Nodes[2].Undos())
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.Zero(t, testhook.Engine(c).Cluster.Nodes[0].Undos())
		b := testhook.Lock(net.Mutex(c, "x")).NewRollback("me", "", false, nil)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		b.Send(0b001, false)
		b.Votes[0].Receive(nil, redis.Error("WRONGTYPE Operation against a key"))
		require.Zero(t, testhook.Engine(c).Cluster.Nodes[0].Undos())
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
