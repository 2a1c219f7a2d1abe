package redlock

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refuse makes the node answer CLIENT with this subcommand by an error.
func (n *testNode) refuse(subcommand, refusal string) {
	n.set(func(n *testNode) {
		n.override = func(cmd string, args []string) string {
			if cmd == "CLIENT" && args[0] == subcommand {
				return refusal
			}
			return ""
		}
	})
}

// kills counts how often clients told the node to close a connection, since the last count.
func (n *testNode) kills() (count int) {
	n.set(func(n *testNode) {
		before := len(n.log)
		n.log = slices.DeleteFunc(n.log, func(label string) bool { return label == "client kill" })
		count = before - len(n.log)
	})
	return count
}

// reconnectTimes breaks the connection to the node so many times.
func reconnectTimes(node *testNode, times int) {
	for range times {
		node.cut()
		time.Sleep(2 * time.Second)
	}
}

const refusalLine = "the server does not close this client's old connections"

func TestRefusedKillIsLoggedOnceAndTriedAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var lines journal
		net.client(WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.nodes[0].refuse("KILL", "NOPERM this user has no permissions to run the 'client|kill' command")
		reconnectTimes(net.nodes[0], 3)
		require.Equal(t, 1, strings.Count(lines.String(), refusalLine), "%s", &lines)
		require.Contains(t, lines.String(), "client|kill' command")
		require.Equal(t, 1+2+3, net.nodes[0].kills(), "each connection named all before it")
		net.nodes[0].set(func(n *testNode) { n.override = nil })
		reconnectTimes(net.nodes[0], 1)
		require.Equal(t, 4, net.nodes[0].kills(), "now that it may, it closes all of them")
		reconnectTimes(net.nodes[0], 1)
		require.Equal(t, 1, net.nodes[0].kills(), "which the node has confirmed")
	})
}

func TestConnectionThatIsGoneCountsAsClosed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		var lines journal
		net.client(WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.nodes[0].refuse("KILL", "ERR No such client")
		reconnectTimes(net.nodes[0], 2)
		require.Equal(t, 1+1, net.nodes[0].kills())
		require.Empty(t, lines.String())
	})
}

func TestServerThatDoesNotNameConnectionsIsLoggedOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		var lines journal
		net.nodes[0].refuse("ID", "NOPERM this user has no permissions to run the 'client|id' command")
		net.client(WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		reconnectTimes(net.nodes[0], 2)
		require.Equal(t, 1, strings.Count(lines.String(), refusalLine), "%s", &lines)
	})
}

func TestOldConnectionsOfAnotherRunAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		net.client()
		net.nodes[0].refuse("KILL", "NOPERM no")
		reconnectTimes(net.nodes[0], 2)
		require.Equal(t, 1+2, net.nodes[0].kills())
		net.nodes[0].restart(nil)
		time.Sleep(2 * time.Second)
		require.Zero(t, net.nodes[0].kills(), "the new run's ids are other clients'")
		reconnectTimes(net.nodes[0], 1)
		require.Equal(t, 1, net.nodes[0].kills(), "only this run's")
	})
}

// What docs/safety.md says is lost where the server refuses CLIENT KILL: an attempt that
// was on its way over the old connection is executed after its release was, and its key
// stays for a ttl.
func TestKeyOfALateAttemptEndsWithItsTTLWhereKillIsRefused(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(10 * time.Second))
		node := net.nodes[0]
		node.refuse("KILL", "NOPERM no")
		old := node.links[0]
		node.set(func(*testNode) { old.held = true })
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(c.patience() + time.Second) // the silent connection was given up
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		require.Zero(t, c.nodes[0].Undos(), "the release was executed over the new connection")
		require.False(t, node.redis.Exists("redlock:x"))
		node.set(func(*testNode) { old.held = false })
		synctest.Wait()
		require.True(t, node.redis.Exists("redlock:x"), "the attempt came after it")
		other, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "the other nodes are a quorum")
		require.NoError(t, other.Unlock(t.Context()))
		time.Sleep(10 * time.Second)
		net.requireNoKeys()
	})
}
