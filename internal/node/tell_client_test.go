package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
				n, server := testhook.Engine(net.Client()).Cluster.Nodes[0], net.Nodes[0]
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
