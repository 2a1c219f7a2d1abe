package lock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/test/testhook"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A holder that waited leaves the wait queue also at nodes that went away before it was
// served.
func TestHolderLeavesTheQueueOfNodesThatWereAway(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		held, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // until all nodes have granted it
		got := make(chan *redlock.Lease, 1)
		go func() {
			lease, _ := b.Mutex("x").Lock(t.Context())
			got <- lease
		}()
		time.Sleep(100 * ms)
		net.Nodes[2].Down()
		time.Sleep(100 * ms)
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, testhook.Engine(b).Cluster.Nodes[2].Undos())
		require.Contains(t, net.Nodes[2].Keys(), "redlock::queue:redlock:x")
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		require.Zero(t, testhook.Engine(b).Cluster.Nodes[2].Undos())
		net.RequireNoKeys()
		for _, key := range net.Nodes[2].Keys() {
			require.NotContains(t, key, "queue", "no waiter is there any more")
		}
	})
}

// An undo that the server refuses is sent again for a ttl, and then forgotten: the server
// was alive all the while, so the key has ended.
func TestRefusedUndoIsSentAgainForAsLongAsTheAttemptStands(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n, m := testhook.Engine(c).Cluster.Nodes[0], net.Mutex(c, "x", redlock.WithTTL(5*time.Second))
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if isRelease(cmd, args) {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		require.True(t, n.Undo(testhook.Lock(m).NewUndo("me", "")))
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, n.Undos())
		require.Greater(t, net.Nodes[0].Releases(), 2)
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
		tries := net.Nodes[0].Releases()
		time.Sleep(3 * time.Second)
		require.Equal(t, tries, net.Nodes[0].Releases())

		// A position in the wait queue stands for longer than a key.
		require.True(t, n.Undo(testhook.Lock(m).NewUndo("me", testnet.FirstTicket)))
		time.Sleep(protocol.QueueTTL - time.Second)
		require.Equal(t, 1, n.Undos())
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos())
	})
}

// The key came to the node by a renewal; the client records the undo of its release all the same.
func TestReleaseIsUndoneAtANodeThatARenewalHealed(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[2].Down()
		synctest.Wait()
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(lease))
		net.Nodes[2].Down()
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes[2].Undos())
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		net.RequireNoKeys()
	})
}

func TestAllUndosAreConfirmed(t *testing.T) {
	testnet.OfEachKind(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n := testhook.Engine(c).Cluster.Nodes[0]
		undo := func() {
			for i := range 3 {
				n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo(fmt.Sprint(i), ""))
			}
		}
		net.Nodes[0].Down()
		synctest.Wait()
		undo()
		net.Nodes[0].Up()
		time.Sleep(2 * time.Second)
		require.Zero(t, n.Undos(), "on the next connection")

		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if isRelease(cmd, args) {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		undo()
		time.Sleep(time.Second)
		require.Equal(t, 3, n.Undos())
		net.Nodes[0].Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(2 * testhook.Engine(c).NodeTimeout) // half of the time that it awaits an answer
		require.Zero(t, n.Undos(), "after refusals")
	})
}

// isRelease reports whether a node is asked to release, by the script's name or its text.
func isRelease(cmd string, args []string) bool {
	return testnet.IsScript(cmd, args, protocol.Release, protocol.ReleaseAll)
}

func TestUndoIsSentWithTheScriptsTextOnlyIfTheServerForgotTheScript(t *testing.T) {
	testnet.OfEachKind(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		n := testhook.Engine(c).Cluster.Nodes[0]
		var sent []string // commands by which the node was asked to release
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if isRelease(cmd, args) {
					sent = append(sent, cmd)
				}
				return ""
			}
		})
		require.True(t, n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo("me", "")))
		synctest.Wait()
		require.Zero(t, n.Undos())
		require.Equal(t, []string{"EVALSHA"}, sent)

		conn := testnet.Dial(t, net.Nodes[0])
		defer conn.Close()
		_, err := conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.True(t, n.Undo(testhook.Lock(net.Mutex(c, "x")).NewUndo("me", "")))
		synctest.Wait()
		require.Zero(t, n.Undos())
		require.Equal(t, []string{"EVALSHA", "EVALSHA", "EVAL"}, sent)
	})
}
