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
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/test/testhook"
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
				lease := net.Must(c.Mutex("x").Lock(t.Context()))
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

// Tell does not wait for the answer, nor for a connection: where there is none, nothing is sent, also not later.
func TestTellSendsACommandIfTheNodeIsConnected(t *testing.T) {
	type act = func(n *testnet.Node)
	frozen, down := (*testnet.Node).Freeze, (*testnet.Node).Down
	thaw, up := (*testnet.Node).Thaw, (*testnet.Node).Up
	breaks := func(n *testnet.Node) { n.Cut(); n.Thaw() }
	spoil := func(n *testnet.Node) { _ = n.Redis.Set("x", "no number") }
	for name, c := range map[string]struct {
		before, after act
		told, fails   bool // then is called, and with an error
		executed      bool
	}{
		"connected":                        {nil, nil, true, false, true},
		"late":                             {frozen, thaw, true, false, true},
		"not connected":                    {down, up, false, false, false},
		"its connection breaks meanwhile":  {frozen, breaks, true, true, true},
		"the server answers with an error": {spoil, nil, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, server := testhook.Engine(net.Client()).Cluster.Nodes()[0], net.Nodes[0]
				var answers []node.Reply
				if c.before != nil {
					c.before(server)
					synctest.Wait()
				}
				require.Zero(t, testnet.Elapsed(func() {
					n.Tell("INCR", func(value any, err error) { answers = append(answers, node.Reply{Value: value, Err: err}) }, "x")
				}))
				synctest.Wait()
				if c.after != nil {
					require.Empty(t, answers)
					time.Sleep(100 * time.Millisecond)
					c.after(server)
					time.Sleep(3 * time.Second)
					synctest.Wait()
				}
				require.Equal(t, c.told, len(answers) == 1)
				if c.told {
					require.Equal(t, c.fails, answers[0].Err != nil, "%v", answers[0].Err)
				}
				value, _ := server.Redis.Get("x")
				require.Equal(t, c.executed, value == "1")
			})
		})
	}
}

// Where the user may not call INFO, the first script shows the mode.
func TestServerInClusterModeIsNamedAtOnceWithoutINFO(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Override = func(cmd string, _ []string) string {
				switch cmd {
				case "INFO":
					return "NOPERM this user has no permissions to run the 'info' command"
				case "EVAL", "EVALSHA":
					return "CROSSSLOT Keys in request don't hash to the same slot"
				}
				return ""
			}
		}
		c := net.NewClient(redlock.WithRestartGuard(time.Minute))
		require.Zero(t, testnet.Elapsed(func() {
			_, err := c.Mutex("x").Lock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "waiting cannot mend it")
			require.ErrorContains(t, err, "the server runs in cluster mode: give the pool the address of a server with cluster-enabled no")
		}))
		require.Equal(t, "unfit", c.Stats().Nodes[0].State)
		require.ErrorContains(t, c.Stats().Nodes[0].Err, "the server runs in cluster mode")
	})
}

// A server that is busy names its run afterwards. Until then the node has no record, not even one of a server without a name.
func TestServerThatIsBusyAtTheHandshakeHasOneRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		busy := net.Nodes[0]
		busy.Override = func(cmd string, _ []string) string {
			if cmd == "INFO" {
				return "BUSY Redis is busy running a script"
			}
			return ""
		}
		c := net.NewClient(redlock.WithRestartGuard(time.Second))
		time.Sleep(5 * time.Second)
		require.Equal(t, "down", c.Stats().Nodes[0].State)
		require.ErrorContains(t, c.Stats().Nodes[0].Err, "does not answer INFO: BUSY")
		require.Empty(t, busy.Keys())
		busy.Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(time.Minute) // its quarantine is over
		require.Equal(t, "up", c.Stats().Nodes[0].State)
	})
}
