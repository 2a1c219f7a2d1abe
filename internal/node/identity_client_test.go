package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
