package waitqueue_test

import (
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

// What the scripts do with parked attempts, at one node; and what clients do with those before.

// handedOff is what the release script returns when the lock goes to another ticket.
const handedOff = 3

// queueParked has "holder" hold the lock at a node, and three waiters queue there with parked
// attempts. It returns the node, and a function that runs a script there by its hash.
func queueParked(t *testing.T, net *testnet.Net, ttl time.Duration, least int64) (n *testnet.Node, eval func(s *protocol.Script, args ...any) any) {
	n, eval = testnet.Scripted(t, net)
	require.NoError(t, n.Redis.Set("redlock:x", "holder"))
	n.Redis.SetTTL("redlock:x", ttl)
	for _, ticket := range []string{testnet.FirstTicket, testnet.SecondTicket, testnet.ThirdTicket} {
		reply := eval(protocol.Acquire, 2, "redlock:x", "record", "of "+ticket, 10_000, "7", least, ticket, "label", "", parkFor.Milliseconds())
		held, err := redis.Values(reply, nil)
		require.NoError(t, err)
		require.Len(t, held, 4)
	}
	return n, eval
}

// holderOf returns the value of the lock's key.
func holderOf(n *testnet.Node) string {
	value, _ := n.Redis.Get("redlock:x")
	return value
}

func TestReleaseOfAnAttemptExecutesNoParkedAttempt(t *testing.T) {
	for name, args := range map[string][]any{
		"of a waiter that stays":         {"holder", testnet.ThirdTicket, "label"},
		"of a caller that found it free": {"holder", ""},
		"of an owner that holds nothing": {"another"},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			eval(protocol.Release, testnet.Keys("redlock:x", args...)...)
			require.False(t, strings.HasPrefix(holderOf(n), "of "), name)
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket), name)
		})
	}
}

// An attempt that is undone is not executed later, also where its waiter keeps its position.
func TestRollbackRemovesTheParkedAttempt(t *testing.T) {
	for _, more := range [][]any{nil, {"label"}} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			eval(protocol.Release, testnet.Keys("redlock:x", append([]any{"of " + testnet.FirstTicket, testnet.FirstTicket}, more...)...)...)
			require.False(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket))
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.SecondTicket))
		})
	}
}

func TestParkedAttemptIsNotCountedInAnIncompleteRecord(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := queueParked(t, net, time.Minute, protocol.FirstCount)
		require.EqualValues(t, handedOff, eval(protocol.Release, testnet.Keys("redlock:x", "holder")...))
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderOf(n))
		require.False(t, n.Redis.Exists("record"), "a count that begins at 0 must not make a record")
	})
}

func TestParkedAttemptExpiresSoon(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := queueParked(t, net, time.Minute, 1)
		time.Sleep(parkFor)
		eval(protocol.Release, testnet.Keys("redlock:x", "holder")...)
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderOf(n))
	})
}

// A parked attempt must not outlast an attempt that takes its place: the client would not notice
// its execution.
func TestNextAttemptRemovesTheParkedOne(t *testing.T) {
	for name, c := range map[string]struct {
		free    bool // the attempt is granted
		parkFor int
	}{"that is not parked": {false, 0}, "that is granted": {true, 0}} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket))
			if c.free {
				n.Redis.Del("redlock:x")
			}
			eval(protocol.Acquire, 2, "redlock:x", "record", "again", 10_000, "7", 1, testnet.FirstTicket, "label", "of "+testnet.FirstTicket, c.parkFor)
			require.False(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket), name)
		})
	}
}

func TestNextAttemptRemovesTheParkedOneFromANodeThatIsNotAsked(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Guarded()
		w, leave := newWaiter(t, net, redlock.WithRestartGuard(time.Millisecond))
		defer leave()
		require.True(t, net.Nodes[2].Redis.Exists(w.parkedKey()))
		testnet.LoseRecord(net.Nodes[2], w.client)
		require.False(t, w.engine.Cluster.Nodes[2].Current().Votes)
		w.try(t)
		synctest.Wait()
		require.True(t, net.Nodes[1].Redis.Exists(w.parkedKey()))
		require.False(t, net.Nodes[2].Redis.Exists(w.parkedKey()))
		require.False(t, net.Nodes[2].Redis.Exists("redlock::queue:redlock:x"))
	})
}

// A node that lacks the script does not execute an attempt, so the attempt does not replace the
// one before there: the client undoes that one.
func TestNextAttemptUndoesTheParkedOneAtANodeThatLacksTheScript(t *testing.T) {
	for _, executed := range []bool{false, true} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			w, leave := newWaiter(t, net)
			defer leave()
			n := net.Nodes[2]
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if n.Label(cmd, args) == "acquire" && cmd == "EVALSHA" {
						return "NOSCRIPT No matching script. Please use EVAL."
					}
					return ""
				}
			})
			if executed {
				conn := testnet.Dial(t, n)
				_, err := conn.Do("EVALSHA", append([]any{protocol.Release.SHA()}, testnet.Keys("redlock:x", holderOf(n))...)...)
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				require.Equal(t, w.attempt.Owner, holderOf(n))
			}
			w.try(t)
			synctest.Wait()
			require.False(t, n.Redis.Exists(w.parkedKey()))
			require.Equal(t, !executed, n.Redis.Exists("redlock:x"))
			require.True(t, net.Nodes[1].Redis.Exists(w.parkedKey()))
			require.Zero(t, w.engine.Cluster.Nodes[2].Undos())
		})
	}
}
