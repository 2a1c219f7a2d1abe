package testnet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodeCountsKnownCommandsOnly(t *testing.T) {
	InBubble(t, 1, func(t *testing.T, net *Net) {
		net.Client()
		require.NotZero(t, net.Nodes[0].Executed("client"))
		require.Zero(t, net.Nodes[0].Executed("release"))
		require.Panics(t, func() { net.Nodes[0].Executed("relase") })
		require.Panics(t, func() { net.Nodes[0].Refuse("no", "relase") })
	})
}
