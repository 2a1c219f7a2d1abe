package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Calls of Resume that fail when a node has transferred the lease to them already.

// resumeAtOneNode begins a call of Resume that node 0 alone answers, and returns the channel that gets its error.
func resumeAtOneNode(t *testing.T, net *testnet.Net, b *redlock.Client, text string) <-chan error {
	t.Helper()
	for _, n := range net.Nodes[1:] {
		n.Down()
	}
	failed := make(chan error, 1)
	go func() {
		_, err := b.Resume(t.Context(), text)
		failed <- err
	}()
	for keeping(t, net, text) == 3 {
		time.Sleep(ms)
	}
	return failed
}

// Close waits until the call has given back what it got.
func TestCloseDuringAResumeLeavesNoKey(t *testing.T) {
	for range 30 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			b := net.Client()
			_, text := transfer(t, net.Client())
			failed := resumeAtOneNode(t, net, b, text)
			time.Sleep(20 * ms)
			require.NoError(t, b.Close())
			assert.NotContains(t, net.Nodes[0].Keys(), "redlock:x")
			require.ErrorIs(t, <-failed, redlock.ErrClosed)
		})
	}
}

// All servers restart, with their keys, when one of them has transferred the lease.
func TestResumeGivesBackWhatItGotBeforeAllServersRestarted(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		unguarded := redlock.WithRestartGuard(0)
		b := net.Client(unguarded)
		_, text := transfer(t, net.Client(unguarded))
		failed := resumeAtOneNode(t, net, b, text)
		for _, n := range net.Nodes {
			n.Restart(n.Snapshot())
			n.Up()
		}
		require.ErrorIs(t, <-failed, redlock.ErrLost)
		time.Sleep(3 * time.Second) // all nodes are connected again, long before the keys end
		net.RequireNoKeys()
	})
}
