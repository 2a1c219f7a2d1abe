package redlock

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Log lines about nodes without a record: one for a new cluster, two for each node that
// is new or restarted later.

const (
	clusterLine    = "a majority of the nodes has no record"
	quarantineLine = "a node has no record of this run"
	upLine         = "a node is up: it votes"
)

// loggedClient makes a client with admission, and the log that it writes.
func (w *testNet) loggedClient(opts ...Option) (*Client, *journal) {
	lines := new(journal)
	opts = append([]Option{WithRestartGuard(time.Millisecond), WithTTL(5 * time.Second), WithLogger(slog.New(slog.NewTextHandler(lines, nil)))}, opts...)
	return w.newClient(opts...), lines
}

// requireLines checks how many lines of each kind there are, and that there is no other.
func requireLines(t *testing.T, lines *journal, cluster, quarantine, up int) {
	t.Helper()
	synctest.Wait()
	text := lines.String()
	require.Equal(t, []int{cluster, quarantine, up}, []int{strings.Count(text, clusterLine), strings.Count(text, quarantineLine), strings.Count(text, upLine)}, text)
	require.Equal(t, cluster+quarantine+up, strings.Count(text, "\n"), text)
}

func TestNewClusterIsLoggedInOneLine(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c, lines := net.loggedClient()
		_ = c.Ping(t.Context()) // the first connections
		requireLines(t, lines, 1, 0, 0)
		require.Contains(t, lines.String(), "nodes=5 of=5 wait=5s")
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Ping(t.Context()))
		requireLines(t, lines, 1, 0, 0)
		for _, n := range c.nodes {
			require.Equal(t, "up", c.Stats().Nodes[n.Index].State)
		}
		net.nodes[3].restart(nil)
		time.Sleep(10 * time.Second)
		requireLines(t, lines, 1, 1, 1)
	})
}

func TestNodeOfANewClusterThatComesLaterIsLoggedByItself(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[2].down()
		c, lines := net.loggedClient()
		_ = c.Ping(t.Context())
		synctest.Wait()
		require.Contains(t, lines.String(), "nodes=2 of=3 wait=")
		net.nodes[2].up()
		time.Sleep(10 * time.Second)
		text := lines.String()
		require.Equal(t, 1, strings.Count(text, clusterLine), text)
		require.Equal(t, 1, strings.Count(text, quarantineLine), text)
		require.Equal(t, 1, strings.Count(text, upLine), text)
		require.NotContains(t, text, c.nodes[0].Name)
	})
}

func TestNewNodeAmongNodesThatVoteIsLoggedByItself(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		require.NoError(t, net.guarded(WithTTL(5*time.Second)).Close())
		net.nodes[1].restart(nil)
		_, lines := net.loggedClient()
		time.Sleep(100 * ms)
		requireLines(t, lines, 0, 1, 0)
		require.Contains(t, lines.String(), "wait=5s")
		time.Sleep(10 * time.Second)
		requireLines(t, lines, 0, 1, 1)
	})
}

// The line about the cluster announces when its nodes vote. That one of them fails before
// is logged by itself.
func TestNodeThatFailsInANewClustersQuarantineIsLoggedByItself(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c, lines := net.loggedClient()
		_ = c.Ping(t.Context())
		net.nodes[0].cut() // it is back at once
		time.Sleep(time.Second)
		requireLines(t, lines, 1, 0, 0)
		net.nodes[1].down()
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, strings.Count(lines.String(), "a node is down"), lines)
		net.nodes[1].up()
		time.Sleep(10 * time.Second)
		text := lines.String()
		require.Equal(t, 1, strings.Count(text, upLine), text)
		require.Contains(t, text, upLine+`" client=`+c.line.id+` node="`+c.nodes[1].Name+`"`)
		require.Equal(t, 0, strings.Count(text, quarantineLine), text)
	})
}

// A frozen node does not keep the line back for longer than the first caller waits.
func TestNewClusterWithAFrozenNodeIsLoggedWhenTheFirstConnectionsAreSettled(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].freeze()
		c, lines := net.loggedClient()
		<-c.settled
		requireLines(t, lines, 1, 0, 0)
		require.Contains(t, lines.String(), "nodes=2 of=3 wait=4.75s", "a node timeout later")
	})
}

func TestEachLineOfTheLogNamesTheClient(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		clients := make(map[string]bool)
		for range 2 {
			c, lines := net.loggedClient()
			_, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			for _, n := range net.nodes {
				n.down()
			}
			time.Sleep(time.Minute)
			for _, n := range net.nodes {
				n.up()
			}
			require.NoError(t, c.Close())
			text := strings.TrimSpace(lines.String())
			require.Contains(t, text, "a lease is lost")
			require.Len(t, c.line.id, 16)
			for line := range strings.Lines(text) {
				require.Contains(t, line, " client="+c.line.id+" ")
			}
			clients[c.line.id] = true
		}
		require.Len(t, clients, 2)
	})
}
