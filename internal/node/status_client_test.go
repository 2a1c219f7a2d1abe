package node_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestNodeThatGoesDownIsReportedOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var events testnet.Tape
		var lines testnet.Journal
		c := net.Client(redlock.WithTrace(events.Trace()), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		events.Clear()
		net.Nodes[1].Down()
		time.Sleep(time.Minute)
		downs := events.OfNodes("down")
		require.Len(t, downs, 1)
		require.Equal(t, 1, downs[0].Index)
		require.Equal(t, nodes(c)[1].Name, downs[0].Node)
		require.False(t, downs[0].Unfit)
		require.ErrorContains(t, downs[0].Err, "disconnected")
		require.Equal(t, "down", c.Stats().Nodes[1].State)
		require.ErrorIs(t, c.Stats().Nodes[1].Err, testnet.ErrRefused)
		net.Nodes[1].Up()
		time.Sleep(time.Second)
		ups := events.OfNodes("up")
		require.Len(t, ups, 1)
		require.Equal(t, 1, ups[0].Index)
		require.Equal(t, "up", c.Stats().Nodes[1].State)
		require.Equal(t, uint64(2), c.Stats().Nodes[1].Connects)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN msg=\"redlock: a node is down"))
		require.Equal(t, 1, strings.Count(lines.String(), "level=INFO msg=\"redlock: a node is up"))
	})
}

func TestNodeThatComesAndGoesDoesNotFillTheLog(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for range 60 { // a minute
			net.Nodes[1].Cut() // it is back at once
			time.Sleep(200 * ms)
		}
		require.Empty(t, lines.String(), "a connection that the client replaces at once needs no line")
		for range 60 {
			net.Nodes[1].Down()
			time.Sleep(500 * ms)
			net.Nodes[1].Up()
			time.Sleep(500 * ms)
		}
		require.LessOrEqual(t, strings.Count(lines.String(), "a node is down"), 3)
		net.Nodes[1].Down()
		time.Sleep(31 * time.Second) // such lines are at least 30 s apart
		last := lines.String()[strings.LastIndex(strings.TrimSpace(lines.String()), "\n")+1:]
		require.Contains(t, last, "a node is down", "the client logs a node that stays away in the end")
	})
}

func TestStalledNodeIsReportedOnceUntilItAnswers(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var events testnet.Tape
		c := net.Client(redlock.WithTrace(events.Trace()), redlock.WithTTL(60*time.Second)) // the client waits 2 s for an answer
		stall := func() {
			net.Nodes[2].Freeze()
			for range 10 {
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(100 * ms)
			}
			require.Equal(t, "stalled", c.Stats().Nodes[2].State)
			net.Nodes[2].Thaw()
			time.Sleep(100 * ms)
			require.Equal(t, "up", c.Stats().Nodes[2].State)
		}
		stall()
		stalls := events.OfNodes("stalled")
		require.Len(t, stalls, 1)
		require.Equal(t, 2, stalls[0].Index)
		require.Greater(t, stalls[0].Silence, 500*ms)
		stall()
		require.Len(t, events.OfNodes("stalled"), 2)
		require.Empty(t, events.OfNodes("down"))
	})
}

func TestQuarantinedNodeIsReportedWithItsWait(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var events testnet.Tape
		var lines testnet.Journal
		c := net.NewClient(redlock.WithRestartGuard(5*time.Second), redlock.WithTTL(5*time.Second), redlock.WithTrace(events.Trace()),
			redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		time.Sleep(time.Second)
		waits := events.OfNodes("quarantined")
		require.Len(t, waits, 3)
		require.Equal(t, 5*time.Second, waits[0].Wait.Round(10*ms))
		require.ErrorContains(t, waits[0].Err, "does not vote")
		require.Equal(t, "quarantined", c.Stats().Nodes[0].State)
		require.Error(t, c.Stats().Nodes[0].Err)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "one line for a new cluster")
		require.Empty(t, events.OfNodes("up"))
		time.Sleep(10 * time.Second)
		require.Len(t, events.OfNodes("up"), 3)
		require.Equal(t, 1, strings.Count(lines.String(), "level="), "it announced that they vote")
	})
}

func TestUnfitNodeIsReportedAsUnfit(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Set(func(n *testnet.Node) { n.Role = "slave" })
		var events testnet.Tape
		var lines testnet.Journal
		c := net.Client(redlock.WithTrace(events.Trace()), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		time.Sleep(time.Minute)
		downs := events.OfNodes("down")
		require.Len(t, downs, 1)
		require.True(t, downs[0].Unfit)
		require.Equal(t, "unfit", c.Stats().Nodes[0].State)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "one line says why the node is unfit, and there is no other: %s", &lines)
	})
}
