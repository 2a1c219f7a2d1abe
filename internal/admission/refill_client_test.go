package admission_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The node's older record may be the only one that counted the last lease.
func TestNodeWhoseOlderRecordCannotBeReadIsNotAdmitted(t *testing.T) {
	for _, command := range []string{"GET", "HGETALL", "TIME"} {
		t.Run(command, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Guarded(redlock.WithTTL(time.Second))
				net.Nodes[0].Restart(net.Nodes[0].Snapshot())
				time.Sleep(100 * ms) // it is connected
				net.Nodes[0].Set(func(n *testnet.Node) {
					n.Override = func(cmd string, args []string) string {
						if cmd == command && (cmd != "GET" || args[0] == protocol.NewestKey) {
							return "ERR not now"
						}
						return ""
					}
				})
				time.Sleep(5 * time.Second)
				require.ErrorContains(t, members(c)[0].Current().Why(), "not now")
				net.Nodes[0].Set(func(n *testnet.Node) { n.Override = nil })
				time.Sleep(3 * time.Second)
				require.True(t, members(c)[0].Current().Votes)
			})
		})
	}
}

func TestAdmissionMergesTheOlderRecordOfTheNodeAndDeletesIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(time.Second))
		n, field := net.Nodes[0], protocol.StripeOf("redlock:x")
		older := n.Record()
		n.Redis.HIncrBy(older, field, 1000)
		count := n.Redis.HGet(older, field)
		quarantine := protocol.Key("quarantine", n.RunID)
		require.True(t, n.Redis.Exists(quarantine))
		n.Restart(n.Snapshot())
		time.Sleep(3 * time.Second)
		require.True(t, members(c)[0].Current().Votes)
		require.NotEqual(t, older, n.Record())
		require.Equal(t, count, n.Redis.HGet(n.Record(), field))
		require.False(t, n.Redis.Exists(older))
		require.False(t, n.Redis.Exists(quarantine))
	})
}

// A node that does not report its counters may have some.
func TestNodeIsNotAdmittedWhileOtherNodesAreSilent(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(time.Second))
		for _, n := range net.Nodes[1:] {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if cmd == "EVAL" && args[0] == protocol.Record.Text() {
						return "BUSY Redis is busy running a script"
					}
					return ""
				}
			})
		}
		net.Nodes[0].Restart(nil)
		time.Sleep(2 * admission.MajorityLossGuard)
		require.ErrorContains(t, members(c)[0].Current().Why(), "with the counters of 2 other nodes that vote (0 answered)")
	})
}

func TestErrorsSayHowLongAQuarantineStillLasts(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.NewClient(redlock.WithRestartGuard(time.Millisecond))
		time.Sleep(4 * time.Second)
		require.ErrorContains(t, c.Ping(t.Context()), "it does not vote for another 6s")
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, "it does not vote for another 6s")
	})
}

func TestNodeKeepsItsVoteWhileItsRecordCannotBeRead(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		looks := net.Nodes[0].Executed("probe")
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == protocol.Probe.Text() {
					return "BUSY Redis is busy running a script"
				}
				return ""
			}
		})
		time.Sleep(2 * admission.ProbeInterval)
		require.Greater(t, net.Nodes[0].Executed("probe"), looks)
		require.True(t, members(c)[0].Current().Votes)
	})
}

func TestGuardIsTheLongestTTLOnRecord(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		long := net.Guarded(redlock.WithTTL(time.Minute))
		short := net.Guarded(redlock.WithTTL(2 * time.Second))
		require.NoError(t, long.Close())
		net.Nodes[0].Restart(nil)
		time.Sleep(time.Second)
		require.ErrorContains(t, members(short)[0].Current().Why(), "it does not vote for another 1m0s")
	})
}

func TestRequestFailsIfTheNodeDoesNotAnswer(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := members(net.Client())[0]
		net.Nodes[0].Mute()
		_, err := n.Request(n.Pipe(), "GET", "x")
		require.Error(t, err)
		require.NotErrorIs(t, err, redis.ErrNil)
	})
}

// The client that admits the node may use shorter ones.
func TestRefilledRecordHasTheLongestTTLOfTheOtherNodes(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		long := net.Guarded(redlock.WithTTL(time.Minute))
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		require.NoError(t, long.Close())
		net.Nodes[0].Restart(nil)
		time.Sleep(61 * time.Second)
		require.True(t, members(c)[0].Current().Votes)
		require.Equal(t, "60000", net.Nodes[0].Redis.HGet(net.Nodes[0].Record(), "ttl"))
	})
}

// A client begins to use a longer ttl while a node is in quarantine: the quarantine is too
// short then.
func TestLongerTTLThatIsFoundAfterAQuarantineBeginsALongerOne(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		net.Nodes[0].Restart(nil)
		time.Sleep(time.Second)
		for _, n := range net.Nodes[1:] {
			n.Redis.HSet(n.Record(), "ttl", "60000")
		}
		time.Sleep(2 * time.Second)
		_, err := members(c)[0].Right(0)
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, err, &quarantine)
		require.Greater(t, quarantine.Left, 50*time.Second)
		time.Sleep(time.Minute)
		require.True(t, members(c)[0].Current().Votes)
	})
}

// The counters of a new cluster begin from the clock, each node's at another instant. The
// clients level them: else the first lock of every stripe would have to raise them.
func TestCountersOfANewClusterAreLevelled(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for i, n := range net.Nodes {
			n.Delay = time.Duration(i) * 20 * ms
		}
		c := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithNodeTimeout(400*ms), redlock.WithRestartGuard(time.Millisecond))
		lease, err := c.Mutex("first").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(3 * time.Second)
		for i := range protocol.Stripes {
			want := net.Nodes[0].Redis.HGet(net.Nodes[0].Record(), strconv.Itoa(i))
			for _, n := range net.Nodes {
				require.Equal(t, want, n.Redis.HGet(n.Record(), strconv.Itoa(i)), "node %d, stripe %d", n.Index, i)
			}
		}
		before := net.Nodes[0].Executed("raise")
		for i := range 50 {
			lease, err := c.Mutex(strconv.Itoa(i)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		require.Equal(t, before, net.Nodes[0].Executed("raise"), "no raise")
		looks := net.Nodes[0].Executed("probe")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, net.Nodes[0].Executed("probe"), looks+7, "and the client looks no more often than before")
	})
}
