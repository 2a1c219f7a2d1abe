package redlock_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestTwentiethOpenClientOfTheSameMastersIsLogged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var log strings.Builder
		open := func(n int, pools ...redlock.Pool) (clients []*redlock.Client) {
			for range n {
				c, err := redlock.New(pools, redlock.WithRestartGuard(0), redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				require.NoError(t, err)
				clients = append(clients, c)
			}
			return clients
		}
		closeAll := func(clients []*redlock.Client) {
			for _, c := range clients {
				require.NoError(t, c.Close())
			}
		}
		all := []redlock.Pool{net.Nodes[0], net.Nodes[1], net.Nodes[2]}
		first, others := open(19, all...), open(19, all[:1]...)
		closeAll(first)
		again := open(19, all...)
		closeAll(others)
		require.NotContains(t, log.String(), "many open clients", "19 at a time, and 19 of another master")
		crowd := open(11, all...)
		closeAll(again)
		closeAll(crowd)
		require.Equal(t, 1, strings.Count(log.String(), "many open clients"), "one line for 30 clients")
		require.Contains(t, log.String(), "clients=20")
	})
}
