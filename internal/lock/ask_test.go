package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestAskReachesTheHolderAndLeavesNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		require.NoError(t, b.Ask(t.Context(), "x"), "it is free")
		plain, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Ask(t.Context(), "x"), "its holder is not told")
		require.NoError(t, plain.Unlock(t.Context()))
		if net.Kind != testnet.Shared { // the node does not know which readers want to be told
			requireNobodyAsked(t, net)
		}

		lease, err := net.Mutex(a, "x", redlock.WithWanted()).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Ask(t.Context(), "y"))
		time.Sleep(8 * time.Second)
		require.Equal(t, net.Kind == testnet.Shared, isWanted(lease), "the readers before it were asked, or nobody")
		net.Nodes[0].Down()
		require.NoError(t, b.Ask(t.Context(), "x"))
		time.Sleep(4 * time.Second)
		require.True(t, isWanted(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(10 * time.Second) // a ttl
		requireNobodyAsked(t, net)
	})
}

// requireNobodyAsked checks that no node keeps that a holder was asked.
func requireNobodyAsked(t *testing.T, net *testnet.Net) {
	t.Helper()
	synctest.Wait()
	for _, n := range net.Nodes {
		require.False(t, n.Redis.Exists(protocol.AskedKey("redlock:x")), "node %d", n.Index)
	}
}

// What the holder before was asked does not concern the next one.
func TestNextHolderIsNotAskedForTheLast(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		deafen(net)
		c := net.Client(redlock.WithWanted())
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Ask(t.Context(), "x"))
		require.NoError(t, first.Unlock(t.Context()))
		next, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.False(t, isWanted(next))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestAskSaysWhyItFailed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.ErrorIs(t, c.Ask(t.Context(), ""), redlock.ErrConfig)
		require.ErrorIs(t, net.Client(redlock.WithPrefix("")).Ask(t.Context(), "redlock::x"), redlock.ErrConfig)
		net.Nodes[0].Down()
		net.Nodes[1].Freeze()
		err := c.Ask(t.Context(), "x")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, "ask", q.Op)
		require.Len(t, q.Votes, 3)
		require.ErrorContains(t, err, "1 of 3 nodes granted, 2 needed")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Ask(ctx, "x"), context.Canceled)
		net.Nodes[1].Thaw()
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Ask(t.Context(), "x"), redlock.ErrClosed)
	})
}

// The advice stands once: a node that is down has it with its reason already.
func TestAskAdvisesOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Refusing = redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		})
		net.Nodes[1].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, _ []string) string {
				if cmd == "EVAL" {
					return "NOPERM this user has no permissions to run the 'eval' command"
				}
				return ""
			}
		})
		err := net.Client().Ask(t.Context(), "x")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, 1, strings.Count(q.Votes[0].Cause.Error(), "(check the user"), "it is down")
		require.Equal(t, 1, strings.Count(q.Votes[1].Cause.Error(), "grant the user"), "it refused")
		require.NoError(t, q.Votes[2].Cause)
	})
}

// The new owner of a lease that was transferred is told as any other.
func TestHolderThatResumedALeaseIsTold(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, text := transfer(t, a)
		require.Nil(t, lease.Wanted())
		resumed, err := b.Resume(t.Context(), text, redlock.WithWanted())
		require.NoError(t, err)
		require.False(t, isWanted(resumed))
		require.NoError(t, a.Ask(t.Context(), "x"))
		require.True(t, isWanted(resumed))
		require.NoError(t, resumed.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
