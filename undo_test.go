package redlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A holder that waited leaves the wait queue also at nodes that went away before it was
// served.
func TestHolderLeavesTheQueueOfNodesThatWereAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *Lease, 1)
		go func() {
			lease, _ := b.Mutex("x").Lock(t.Context())
			got <- lease
		}()
		time.Sleep(100 * ms)
		net.nodes[2].down()
		time.Sleep(100 * ms)
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, b.nodes[2].Undos())
		require.Contains(t, net.nodes[2].keys(), "redlock::line:redlock:x")
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		require.Zero(t, b.nodes[2].Undos())
		net.requireNoKeys()
		for _, key := range net.nodes[2].keys() {
			require.NotContains(t, key, "line", "no waiter is there any more")
		}
	})
}

// An undo that the server refuses is sent again for a ttl, and then forgotten: the server
// was alive all the while, so the key has ended.
func TestRefusedUndoIsSentAgainForAsLongAsTheAttemptStands(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		n, m := c.nodes[0], c.Mutex("x", WithTTL(5*time.Second))
		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == protocol.Release.Text {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		require.True(t, n.Undo(m.undoOf("me", "")))
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, n.Undos())
		require.Greater(t, net.nodes[0].executed("release"), 2)
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
		tries := net.nodes[0].executed("release")
		time.Sleep(3 * time.Second)
		require.Equal(t, tries, net.nodes[0].executed("release"))

		// A place in the wait queue stands for longer than a key.
		require.True(t, n.Undo(m.undoOf("me", firstTicket)))
		time.Sleep(protocol.LineLife - time.Second)
		require.Equal(t, 1, n.Undos())
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
	})
}

// The key came to the node by a renewal; the client records the undo of its release all the same.
func TestReleaseIsUndoneAtANodeThatARenewalHealed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[2].down()
		synctest.Wait()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.holders(lease))
		net.nodes[2].down()
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, c.nodes[2].Undos())
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		net.requireNoKeys()
	})
}

func TestAllUndosAreConfirmed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		c := net.client()
		n := c.nodes[0]
		undo := func() {
			for i := range 3 {
				n.Undo(c.Mutex("x").undoOf(fmt.Sprint(i), ""))
			}
		}
		net.nodes[0].down()
		synctest.Wait()
		undo()
		net.nodes[0].up()
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos(), "on the next connection")

		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == protocol.Release.Text {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		undo()
		time.Sleep(time.Second)
		require.Equal(t, 3, n.Undos())
		net.nodes[0].set(func(n *testNode) { n.override = nil })
		time.Sleep(c.patience() / 2)
		require.Zero(t, n.Undos(), "after refusals")
	})
}
