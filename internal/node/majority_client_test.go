//go:build !386 && !arm

// Embedded nodes have no numbers beyond 32 bits there, such as an admission has.

package node_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const (
	stopLine    = `level=ERROR msg="redlock: no majority of the nodes votes`
	againLine   = `level=INFO msg="redlock: a majority of the nodes votes again`
	locksGoOn   = "locks go on while a majority votes"
	clusterLine = "a majority of the nodes has no record"
)

// requireMajorityLines checks how often the log says that no majority votes, and that one votes again.
func requireMajorityLines(t *testing.T, lines *testnet.Journal, stops, agains int) {
	t.Helper()
	synctest.Wait()
	text := lines.String()
	require.Equal(t, []int{stops, agains}, []int{strings.Count(text, stopLine), strings.Count(text, againLine)}, text)
}

func logTo(lines *testnet.Journal) redlock.ClientOption {
	return redlock.WithLogger(slog.New(slog.NewTextHandler(lines, nil)))
}

func TestLogSaysOnceThatNoMajorityVotesAndThatOneVotesAgain(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		testnet.InBubble(t, nodes, func(t *testing.T, net *testnet.Net) {
			var lines testnet.Journal
			net.Client(logTo(&lines))
			minority := nodes / 2
			for round := 1; round <= 2; round++ {
				for _, n := range net.Nodes[:minority+1] { // a majority, at one instant
					n.Down()
				}
				time.Sleep(time.Minute)
				requireMajorityLines(t, &lines, round, round-1)
				require.NotContains(t, lines.String(), locksGoOn)
				net.Nodes[:minority+1].Up()
				time.Sleep(time.Minute)
				requireMajorityLines(t, &lines, round, round)
			}
		})
	}
}

func TestLogSaysThatLocksGoOnWhileAMajorityVotes(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Client(logTo(&lines))
		net.Nodes[0].Down()
		time.Sleep(time.Minute)
		requireMajorityLines(t, &lines, 0, 0)
		require.Equal(t, 1, strings.Count(lines.String(), locksGoOn))
		net.Nodes[1].Down()
		time.Sleep(time.Minute)
		requireMajorityLines(t, &lines, 1, 0)
		require.Equal(t, 1, strings.Count(lines.String(), locksGoOn))
		require.Equal(t, 2, strings.Count(lines.String(), "a node is down"))
		require.Contains(t, lines.String(), "voting=1 of=3 needed=2")
		net.Nodes[0].Up()
		time.Sleep(time.Second)
		requireMajorityLines(t, &lines, 1, 1)
	})
}

func TestFrozenMajorityIsLogged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(logTo(&lines))
		net.Nodes[0].Freeze()
		net.Nodes[2].Freeze()
		for range 60 {
			_ = c.Ping(t.Context())
			time.Sleep(time.Second)
		}
		requireMajorityLines(t, &lines, 1, 0)
		require.NotContains(t, lines.String(), locksGoOn)
	})
}

func TestClientThatBeginsWithoutAMajorityLogsThat(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[1].Down()
		net.Nodes[2].Down()
		var lines testnet.Journal
		net.NewClient(logTo(&lines), redlock.WithRestartGuard(0))
		time.Sleep(time.Minute)
		requireMajorityLines(t, &lines, 1, 0)
		require.NotContains(t, lines.String(), locksGoOn)
		net.Nodes[1].Up()
		time.Sleep(time.Second)
		requireMajorityLines(t, &lines, 1, 1)
	})
}

// The line about a new cluster says already that locks wait. It holds only as long as a majority waits.
func TestNewClusterThatLosesAMajorityLogsThat(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.NewClient(logTo(&lines), redlock.WithRestartGuard(time.Millisecond), redlock.WithTTL(20*time.Second))
		time.Sleep(time.Second)
		require.Contains(t, lines.String(), clusterLine)
		net.Nodes[0].Cut() // it is back at once
		net.Nodes[1].Down()
		time.Sleep(time.Second)
		requireMajorityLines(t, &lines, 0, 0)
		net.Nodes[2].Down()
		time.Sleep(time.Second)
		requireMajorityLines(t, &lines, 1, 0)
		net.Nodes[1].Up()
		net.Nodes[2].Up()
		time.Sleep(time.Minute)
		requireMajorityLines(t, &lines, 1, 1)
	})
}

func TestMajorityThatComesAndGoesDoesNotFillTheLog(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Client(logTo(&lines))
		for range 60 { // a minute; the client replaces these connections at once
			net.Nodes[0].Cut()
			net.Nodes[1].Cut()
			time.Sleep(time.Second)
		}
		requireMajorityLines(t, &lines, 0, 0)
		for range 60 {
			net.Nodes[0].Down()
			net.Nodes[1].Down()
			time.Sleep(500 * ms)
			net.Nodes[0].Up()
			net.Nodes[1].Up()
			time.Sleep(500 * ms)
		}
		text := lines.String()
		require.LessOrEqual(t, strings.Count(text, stopLine), 3)
		require.Equal(t, strings.Count(text, stopLine), strings.Count(text, againLine))
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		time.Sleep(31 * time.Second) // such lines are at least 30 s apart
		require.Equal(t, strings.Count(text, stopLine)+1, strings.Count(lines.String(), stopLine))
	})
}

// A busy machine connects slowly. The node that is down has failed several times when the others vote, and the time in which
// locks await connections is over.
func TestStartingClientMakesNoClaimBeforeItHasLookedAtEveryNode(t *testing.T) {
	for _, way := range []time.Duration{20 * ms, 100 * ms, 300 * ms} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			var lines testnet.Journal
			net.Nodes[0].Down()
			net.Nodes[1:].Set(func(n *testnet.Node) { n.Delay = way })
			net.NewClient(logTo(&lines), redlock.WithRestartGuard(0))
			time.Sleep(time.Minute)
			requireMajorityLines(t, &lines, 0, 0)
			require.NotContains(t, lines.String(), "no majority")
			require.Equal(t, 1, strings.Count(lines.String(), locksGoOn), "the node that is down")
		})
	}
}
