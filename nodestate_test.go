package redlock

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestANodeThatIsGoneIsToldOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		var lines journal
		c := net.client(WithTrace(heard.trace()), WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		heard.clear()
		net.nodes[1].down()
		time.Sleep(time.Minute)
		downs := told[NodeDown](&heard)
		require.Len(t, downs, 1)
		require.Equal(t, 1, downs[0].Index)
		require.Equal(t, c.nodes[1].Name, downs[0].Node)
		require.False(t, downs[0].Misfit)
		require.ErrorContains(t, downs[0].Err, "disconnected")
		require.Equal(t, "down", c.Stats().Nodes[1].State)
		require.ErrorIs(t, c.Stats().Nodes[1].Err, errRefused)
		net.nodes[1].up()
		time.Sleep(time.Second)
		ups := told[NodeUp](&heard)
		require.Len(t, ups, 1)
		require.Equal(t, 1, ups[0].Index)
		require.Equal(t, "up", c.Stats().Nodes[1].State)
		require.Equal(t, uint64(2), c.Stats().Nodes[1].Connects)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN msg=\"redlock: a node is down"))
		require.Equal(t, 1, strings.Count(lines.String(), "level=INFO msg=\"redlock: a node is up"))
	})
}

func TestANodeThatComesAndGoesDoesNotFillTheLog(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var lines journal
		net.client(WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for range 60 { // a minute
			net.nodes[1].cut() // it is back at once
			time.Sleep(200 * ms)
		}
		require.Empty(t, lines.String(), "a connection that is made anew at once is worth no line")
		for range 60 {
			net.nodes[1].down()
			time.Sleep(500 * ms)
			net.nodes[1].up()
			time.Sleep(500 * ms)
		}
		require.LessOrEqual(t, strings.Count(lines.String(), "a node is down"), 3)
		net.nodes[1].down()
		time.Sleep(31 * time.Second) // such lines are at least 30s apart
		last := lines.String()[strings.LastIndex(strings.TrimSpace(lines.String()), "\n")+1:]
		require.Contains(t, last, "a node is down", "one that stays away is told in the end")
	})
}

func TestAStalledNodeIsToldOnceUntilItAnswers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		c := net.client(WithTrace(heard.trace()), WithTTL(60*time.Second)) // its answers are awaited for 2s
		stall := func() {
			net.nodes[2].freeze()
			for range 10 {
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(100 * ms)
			}
			require.Equal(t, "stalled", c.Stats().Nodes[2].State)
			net.nodes[2].thaw()
			time.Sleep(100 * ms)
			require.Equal(t, "up", c.Stats().Nodes[2].State)
		}
		stall()
		stalls := told[NodeStalled](&heard)
		require.Len(t, stalls, 1)
		require.Equal(t, 2, stalls[0].Index)
		require.Greater(t, stalls[0].Silence, 500*ms)
		stall()
		require.Len(t, told[NodeStalled](&heard), 2)
		require.Empty(t, told[NodeDown](&heard))
	})
}

func TestAQuarantinedNodeIsToldWithItsWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		var lines journal
		c := net.newClient(WithRestartGuard(5*time.Second), WithTTL(5*time.Second), WithTrace(heard.trace()),
			WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		time.Sleep(time.Second)
		waits := told[NodeQuarantined](&heard)
		require.Len(t, waits, 3)
		require.Equal(t, 5*time.Second, waits[0].Wait.Round(10*ms))
		require.ErrorContains(t, waits[0].Err, "does not vote")
		require.Equal(t, "quarantined", c.Stats().Nodes[0].State)
		require.Error(t, c.Stats().Nodes[0].Err)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "one line for a new cluster")
		require.Empty(t, told[NodeUp](&heard))
		time.Sleep(10 * time.Second)
		require.Len(t, told[NodeUp](&heard), 3)
		require.Equal(t, 1, strings.Count(lines.String(), "level="), "which announced that they vote")
	})
}

func TestAMisfitIsToldAsOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].set(func(n *testNode) { n.role = "slave" })
		var heard tape
		var lines journal
		c := net.client(WithTrace(heard.trace()), WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		time.Sleep(time.Minute)
		downs := told[NodeDown](&heard)
		require.Len(t, downs, 1)
		require.True(t, downs[0].Misfit)
		require.Equal(t, "misfit", c.Stats().Nodes[0].State)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "it is told what it is, and nothing more: %s", &lines)
	})
}
