package admission_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The client logs one line for a new cluster, and two for each node that is new or
// restarted later.

const (
	clusterLine    = "a majority of the nodes has no record"
	quarantineLine = "a node has no record of this run"
	upLine         = "a node is up: it votes"
)

// loggedClient makes a client with admission, and the log that it writes.
func loggedClient(net *testnet.Net, opts ...redlock.ClientOption) (*redlock.Client, *testnet.Journal) {
	lines := new(testnet.Journal)
	opts = append([]redlock.ClientOption{redlock.WithRestartGuard(time.Millisecond), redlock.WithTTL(5 * time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(lines, nil)))}, opts...)
	return net.NewClient(opts...), lines
}

// requireLines checks how many lines of each kind there are, and that there is no other.
func requireLines(t *testing.T, lines *testnet.Journal, cluster, quarantine, up int) {
	t.Helper()
	synctest.Wait()
	text := lines.String()
	require.Equal(t, []int{cluster, quarantine, up}, []int{strings.Count(text, clusterLine), strings.Count(text, quarantineLine), strings.Count(text, upLine)}, text)
	require.Equal(t, cluster+quarantine+up, strings.Count(text, "\n"), text)
}

func TestNewClusterIsLoggedInOneLine(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, lines := loggedClient(net)
		_ = c.Ping(t.Context()) // the first connections
		requireLines(t, lines, 1, 0, 0)
		require.Contains(t, lines.String(), "nodes=5 of=5 wait=5s")
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Ping(t.Context()))
		requireLines(t, lines, 1, 0, 0)
		for _, n := range members(c) {
			require.Equal(t, "up", c.Stats().Nodes[n.Index].State)
		}
		net.Nodes[3].Restart(nil)
		time.Sleep(10 * time.Second)
		requireLines(t, lines, 1, 1, 1)
	})
}

func TestNodeOfANewClusterThatComesLaterIsLoggedByItself(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[2].Down()
		c, lines := loggedClient(net)
		_ = c.Ping(t.Context())
		synctest.Wait()
		require.Contains(t, lines.String(), "nodes=2 of=3 wait=")
		net.Nodes[2].Up()
		time.Sleep(10 * time.Second)
		text := lines.String()
		require.Equal(t, 1, strings.Count(text, clusterLine), text)
		require.Equal(t, 1, strings.Count(text, quarantineLine), text)
		require.Equal(t, 1, strings.Count(text, upLine), text)
		require.NotContains(t, text, members(c)[0].Name)
	})
}

func TestNewNodeAmongNodesThatVoteIsLoggedByItself(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded(redlock.WithTTL(5*time.Second)).Close())
		net.Nodes[1].Restart(nil)
		_, lines := loggedClient(net)
		time.Sleep(100 * ms)
		requireLines(t, lines, 0, 1, 0)
		require.Contains(t, lines.String(), "wait=5s")
		time.Sleep(10 * time.Second)
		requireLines(t, lines, 0, 1, 1)
	})
}

// The line about the cluster announces when its nodes vote. If one of them fails before, the
// client logs that by itself.
func TestNodeThatFailsInANewClustersQuarantineIsLoggedByItself(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, lines := loggedClient(net)
		_ = c.Ping(t.Context())
		net.Nodes[0].Cut() // it is back at once
		time.Sleep(time.Second)
		requireLines(t, lines, 1, 0, 0)
		net.Nodes[1].Down()
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, strings.Count(lines.String(), "a node is down"), lines)
		net.Nodes[1].Up()
		time.Sleep(10 * time.Second)
		text := lines.String()
		require.Equal(t, 1, strings.Count(text, upLine), text)
		require.Contains(t, text, upLine+`" client=`+testhook.Engine(c).ID+` node="`+members(c)[1].Name+`"`)
		require.Equal(t, 0, strings.Count(text, quarantineLine), text)
	})
}

// A frozen node does not delay the line for longer than the first caller waits.
func TestNewClusterWithAFrozenNodeIsLoggedWhenTheFirstConnectionsAreSettled(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Freeze()
		c, lines := loggedClient(net)
		life := testhook.Engine(c).Life
		require.NoError(t, life.Enter(t.Context())) // returns when the first connections are settled
		life.Leave()
		requireLines(t, lines, 1, 0, 0)
		require.Contains(t, lines.String(), "nodes=2 of=3 wait=4.75s", "a node timeout later")
	})
}

func TestEveryLogLineNamesTheClient(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		clients := make(map[string]bool)
		for range 2 {
			c, lines := loggedClient(net)
			net.Must(c.Mutex("x").Lock(t.Context()))
			net.Nodes.Down()
			time.Sleep(time.Minute)
			net.Nodes.Up()
			require.NoError(t, c.Close())
			text := strings.TrimSpace(lines.String())
			require.Contains(t, text, "a lease is lost")
			require.Len(t, testhook.Engine(c).ID, 16)
			for line := range strings.Lines(text) {
				require.Contains(t, line, " client="+testhook.Engine(c).ID+" ")
			}
			clients[testhook.Engine(c).ID] = true
		}
		require.Len(t, clients, 2)
	})
}
