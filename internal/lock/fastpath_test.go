package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// If the connection breaks between the commands, the node may have granted the attempt.
func TestAttemptIsUndoneIfItsConnectionBreaksBetweenTheCommands(t *testing.T) {
	for answered := range 5 {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			commands := 0
			net.Nodes[0].Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					switch cmd {
					case "SET", "HINCRBY", "ZCARD", "GET", "PTTL":
						if commands++; commands == answered+1 {
							go n.Cut()
						}
					}
					return ""
				}
			})
			if lease, err := c.Mutex("x").TryLock(t.Context()); err == nil {
				_ = lease.Unlock(t.Context()) // it may meet the cut
			}
			time.Sleep(time.Second)
			net.RequireNoKeys()
			require.Zero(t, testhook.Engine(c).Cluster.Nodes()[0].Undos())
		})
	}
}

// The node counts an attempt although it has lost its record.
func TestCountWithoutRecordIsRemoved(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		right := testhook.Engine(c).Cluster.Nodes()[0].Current()
		var probes []string // how many keys each probe of the first node has
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if n.Label(cmd, args) == "probe" {
					probes = append(probes, args[1])
				}
				return ""
			}
		})
		net.Nodes[0].Redis.FlushAll()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		time.Sleep(time.Second)
		require.NotContains(t, net.Nodes[0].Keys(), right.Record)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.True(t, testhook.Engine(c).Cluster.Nodes()[0].Current().Votes)
		synctest.Wait()
		require.Equal(t, "5", probes[0], "the first one names the key that is removed")
		require.NotContains(t, probes[1:], "5", "and no other does")
	})
}

// Raising a count must not make a record at a node that has lost its own.
func TestRaiseLeavesCountWithoutRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		synctest.Wait()
		wiped := net.Nodes[1]
		record := testhook.Engine(c).Cluster.Nodes()[1].Current().Record.(string)
		wiped.Redis.FlushAll()
		// The counts differ, so that the token is raised at the others; and the wiped node answers late.
		_, err := net.Nodes[0].Redis.HIncrBy(net.Nodes[0].Record(), protocol.StripeOf("redlock:x"), 5)
		require.NoError(t, err)
		wiped.Mute()
		lease := net.Must(c.Mutex("x").TryLock(t.Context()))
		synctest.Wait()
		require.Equal(t, 1, wiped.Executed("raise"))
		require.Equal(t, "1", wiped.Redis.HGet(record, protocol.StripeOf("redlock:x")))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// If all waiters have died, TryLock need not wake each of them.
func TestTryLockPassesAQueueOfDeadWaiters(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(redlock.WithTTL(2*time.Second)), net.Client()
		b, pools := net.CuttableClient()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		leave, gone := testnet.QueueUp(t, b, 30)
		time.Sleep(500 * ms)
		testnet.Hold(pools, true)
		net.Die(a, lease)
		time.Sleep(3 * time.Second)
		tries := 1
		for ; ; tries++ {
			last, err := c.Mutex("x").TryLock(t.Context())
			if err == nil {
				require.NoError(t, last.Unlock(t.Context()))
				break
			}
			require.ErrorIs(t, err, redlock.ErrHeld)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, tries, 3)
		testnet.Hold(pools, false)
		leave()
		gone.Wait()
	})
}
