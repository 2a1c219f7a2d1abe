//go:build !386 && !arm

// Embedded nodes have no numbers beyond 32 bits there, such as an admission has.

package node_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// kills counts the commands CLIENT KILL that the server executed since the last count.
func kills(n *testnet.Node) (count int) {
	n.Set(func(n *testnet.Node) {
		before := len(n.Log)
		n.Log = slices.DeleteFunc(n.Log, func(label string) bool { return label == "client kill" })
		count = before - len(n.Log)
	})
	return count
}

// reconnectTimes breaks the connections to the server so many times, and lets the client
// connect again.
func reconnectTimes(n *testnet.Node, times int) {
	for range times {
		n.Cut()
		time.Sleep(2 * time.Second)
	}
}

const refusalLine = "the server does not close this client's old connections"

func TestRefusedKillIsLoggedOnceAndTriedAgain(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.Nodes[0].Refuse("NOPERM this user has no permissions to run the 'client|kill' command", "client kill")
		reconnectTimes(net.Nodes[0], 3)
		require.Equal(t, 1, strings.Count(lines.String(), refusalLine), "%s", &lines)
		require.Contains(t, lines.String(), "client|kill' command")
		require.Equal(t, 1+2+3, kills(net.Nodes[0]), "each new connection closes all before it")
		net.Nodes[0].Set(func(n *testnet.Node) { n.Override = nil })
		reconnectTimes(net.Nodes[0], 1)
		require.Equal(t, 4, kills(net.Nodes[0]), "now the server closes all of them")
		reconnectTimes(net.Nodes[0], 1)
		require.Equal(t, 1, kills(net.Nodes[0]), "the server has confirmed the others")
	})
}

func TestConnectionThatIsGoneCountsAsClosed(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.Nodes[0].Refuse("ERR No such client", "client kill")
		reconnectTimes(net.Nodes[0], 2)
		require.Equal(t, 1+1, kills(net.Nodes[0]))
		require.Empty(t, lines.String())
	})
}

func TestServerThatDoesNotNameConnectionsIsLoggedOnce(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Nodes[0].Refuse("NOPERM this user has no permissions to run the 'client|id' command", "client id")
		net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		reconnectTimes(net.Nodes[0], 2)
		require.Equal(t, 1, strings.Count(lines.String(), refusalLine), "%s", &lines)
	})
}

// docs/safety.md says what a client loses if the server refuses CLIENT KILL: the server
// executes an attempt that was on its way over the old connection after it has executed the
// release of that attempt, and the key stays for a ttl.
func TestKeyOfALateAttemptEndsWithItsTTLWhereKillIsRefused(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(10 * time.Second))
		node := net.Nodes[0]
		node.Refuse("NOPERM no", "client kill")
		old := node.Links[0]
		node.Set(func(*testnet.Node) { old.Held = true })
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(deadAfter(c) + time.Second) // the client has given up the silent connection
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		require.Zero(t, nodes(c)[0].Undos(), "the node has executed the release over the new connection")
		require.False(t, node.Redis.Exists("redlock:x"))
		node.Set(func(*testnet.Node) { old.Held = false })
		synctest.Wait()
		require.True(t, node.Redis.Exists("redlock:x"), "the attempt came after the release")
		other, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "the other nodes are a quorum")
		require.NoError(t, other.Unlock(t.Context()))
		time.Sleep(10 * time.Second)
		net.RequireNoKeys()
	})
}
