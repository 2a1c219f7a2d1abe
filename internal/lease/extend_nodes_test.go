package lease_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Which nodes may vote for a lease that ExtendTo prolongs beyond its lock's ttl.

// A node that forgot the lease must not vote before the longer ttl is over.
func TestGuardIsAsLongAsAnExtendTo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Guarded(redlock.WithoutRenewal()), net.Guarded()
		lease, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes[2].Down()
		require.NoError(t, lease.ExtendTo(t.Context(), 40*time.Second))
		require.Equal(t, validity(40*time.Second), lease.Remaining())
		net.Nodes[1].Restart(nil)
		net.Nodes[2].Redis.Del("redlock:x") // it was away when the lease was prolonged: its key ends early
		net.Nodes[2].Drop(lease)
		net.Nodes[2].Up()
		for lease.Valid() {
			_, err := b.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "with %v left of the first lease", lease.Remaining())
			time.Sleep(200 * ms)
		}
	})
}

// Nodes that cannot put the ttl on record do not vote for it.
func TestExtendToAsksNodesThatHaveItsTTLOnRecord(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[1:] {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if testnet.IsScript(cmd, args, protocol.Probe) {
						return "BUSY"
					}
					return ""
				}
			})
		}
		renewals := net.Nodes[1].Renewals()
		err = lease.ExtendTo(t.Context(), time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "is being registered at the node")
		require.Equal(t, renewals, net.Nodes[1].Renewals())
		require.LessOrEqual(t, lease.Remaining(), validity(10*time.Second))
		require.NoError(t, lease.ExtendTo(t.Context(), 9*time.Second), "a shorter one needs no record")
	})
}

// Commands on a connection that was given up, and that the server has not closed, may be executed
// late: a usual renewal among them would end the key early.
func TestExtendToAsksNoNodeThatKeepsOldConnections(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if cmd == "CLIENT" && strings.EqualFold(args[0], "KILL") {
						return "NOPERM this user has no permissions to run the 'client|kill' command"
					}
					return ""
				}
			})
		}
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute), "no connection broke yet")
		for _, n := range net.Nodes[1:] {
			n.Cut()
		}
		time.Sleep(time.Second)
		until := lease.Until()
		err = lease.ExtendTo(t.Context(), 2*time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "grant the user INFO, CLIENT ID and CLIENT KILL")
		require.Equal(t, until, lease.Until())
		require.NoError(t, lease.Extend(t.Context()))

		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Override = nil })
			n.Cut()
		}
		time.Sleep(time.Second)
		require.NoError(t, lease.ExtendTo(t.Context(), 2*time.Minute))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Close, and an undo that a server refuses, must know how long the keys stand.
func TestLeaseKnowsHowLongItsKeysLast(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute))
		require.NoError(t, lease.ExtendTo(t.Context(), 20*time.Second))
		require.Equal(t, time.Minute, testhook.Lease(lease).TTL(), "a node that was away may have the longest")
		synctest.Wait()
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if testnet.IsScript(cmd, args, protocol.Release, protocol.ReleaseAll) {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(50 * time.Second)
		require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes[0].Undos(), "the server still has the key, perhaps")
		time.Sleep(20 * time.Second)
		require.Zero(t, testhook.Engine(c).Cluster.Nodes[0].Undos())
	})
}
