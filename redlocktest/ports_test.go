package redlocktest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each keeper stands for a process. The nodes of both are stopped, and so do not listen.
func TestPortOfAStoppedNodeIsNotUsedAgain(t *testing.T) {
	var a, b portKeeper
	owners := make(map[int]*portKeeper)
	take := func(k *portKeeper) int {
		listener, port, err := k.take()
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		return port
	}
	for range 3 * blockSize {
		for _, k := range []*portKeeper{&a, &b} {
			port := take(k)
			require.Nil(t, owners[port], "port %d has an owner", port)
			owners[port] = k
		}
	}
	for port, k := range owners {
		k.giveBack(port)
	}
	require.Empty(t, a.blocks)
	require.Empty(t, b.blocks)
}

func TestReturnedPortIsNotUsedAgainAtOnce(t *testing.T) {
	var k portKeeper
	listener, first, err := k.take()
	require.NoError(t, err)
	defer listener.Close()
	defer k.giveBack(first)
	seen := map[int]bool{first: true}
	for range blockSize / 2 {
		listener, port, err := k.take()
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		require.False(t, seen[port])
		seen[port] = true
		k.giveBack(port)
	}
}

// A block belongs to another process if a listener has its first port.
func TestABlockIsClaimedByItsFirstPort(t *testing.T) {
	var k portKeeper
	listener, port, err := k.take()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, err = listenOn(k.blocks[0].first)
	require.Error(t, err)
	claim := k.blocks[0].claim
	k.giveBack(port)
	require.Empty(t, k.blocks)
	_, err = claim.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
