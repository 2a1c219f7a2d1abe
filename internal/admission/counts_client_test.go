package admission_test

import (
	"bytes"
	"log/slog"
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

// tooGreat is a count from which tokens cannot grow: the scripts' numbers end just above it.
const tooGreat = "9007199254740990"

// grow locks so often, and requires that tokens grow and can be explained.
func grow(t *testing.T, c *redlock.Client, times int, before int64) int64 {
	t.Helper()
	for range times {
		token, _ := lockWithin(t, c, 5*time.Second)
		require.Greater(t, token, before)
		require.Less(t, token, int64(1)<<52)
		before = token
	}
	return before
}

func TestRecordWithACountThatNoClockExplainsIsRefilledFromTheOthers(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		var log bytes.Buffer
		c := net.Guarded(redlock.WithTTL(2*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
		before := grow(t, c, 1, 0)
		damaged := n.Record()
		n.Redis.HSet(damaged, field, tooGreat)
		before = grow(t, c, 400, before)
		time.Sleep(3 * time.Second)
		require.NotEqual(t, damaged, n.Record())
		count, err := strconv.ParseInt(n.Redis.HGet(n.Record(), field), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, count, before)
		require.True(t, members(c)[1].Current().Votes)
		grow(t, c, 10, before)
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "a node's record is damaged: it has a count that no clock explains; it is deleted")
	})
}

// The answer was damaged on its way: the record is in order, and stays.
func TestCountThatWasDamagedOnItsWayIsNoAnswer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
		before := grow(t, c, 1, 0)
		record := n.Record()
		n.Redis.HSet(record, field, tooGreat)
		n.Set(func(node *testnet.Node) {
			node.Override = func(cmd string, args []string) string {
				if cmd == "HGETALL" && args[0] == record {
					n.Redis.HSet(record, field, strconv.FormatInt(before, 10))
				}
				return ""
			}
		})
		before = grow(t, c, 50, before)
		require.Equal(t, record, n.Record())
		require.True(t, members(c)[1].Current().Votes)
		require.NotEqual(t, tooGreat, n.Redis.HGet(record, field))
	})
}

// Nobody can say what the counts were: a person decides.
func TestMajorityOfDamagedRecordsIsUnfit(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		for _, n := range net.Nodes[:2] {
			n.Redis.HSet(n.Record(), protocol.StripeOf("redlock:x"), tooGreat)
		}
		net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
		time.Sleep(time.Second)
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, "its record is damaged")
		for _, n := range net.Nodes[:2] {
			n.Redis.Del(n.Record())
		}
		time.Sleep(time.Second)
		lockWithin(t, c, 25*time.Second)
	})
}

// A vote whose answer is lost may have counted at a server that was wiped.
func TestCounterWithoutARecordIsDeletedThoughTheAnswerWasLost(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		n := net.Nodes[1]
		record := n.Record()
		n.Redis.FlushAll()
		n.Set(func(n *testnet.Node) { n.Muting = true })
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.True(t, n.Redis.Exists(record), "the vote was counted")
		n.Cut()
		time.Sleep(time.Second)
		require.False(t, n.Redis.Exists(record))
	})
}

// A counter that cannot be counted on is damage, too: the server answers each attempt of its stripe with an error,
// or counts from below.
func TestRecordWhoseCounterCannotCountIsRefilledFromTheOthers(t *testing.T) {
	for _, count := range []string{"9223372036854775807", "92233720368547758070", "text", "1.5e15", "17", ""} {
		t.Run(count, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Guarded(redlock.WithTTL(2 * time.Second))
				n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
				before := grow(t, c, 1, 0)
				if count != "" {
					n.Redis.HSet(n.Record(), field, count)
				} else {
					n.Redis.HDel(n.Record(), field)
				}
				for range 50 {
					before = grow(t, c, 1, before)
					time.Sleep(100 * ms)
				}
				now, err := strconv.ParseInt(n.Redis.HGet(n.Record(), field), 10, 64)
				require.NoError(t, err)
				require.GreaterOrEqual(t, now, before)
				require.True(t, members(c)[1].Current().Votes)
				net.Nodes[0].Down()
				grow(t, c, 3, before)
			})
		})
	}
}

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
		net.Nodes[1:].Refuse("BUSY Redis is busy running a script", "record")
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
		net.Nodes[0].Refuse("BUSY Redis is busy running a script", "probe")
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
		lease := net.Must(c.Mutex("first").Lock(t.Context()))
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
			lease := net.Must(c.Mutex(strconv.Itoa(i)).Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		}
		require.Equal(t, before, net.Nodes[0].Executed("raise"), "no raise")
		looks := net.Nodes[0].Executed("probe")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, net.Nodes[0].Executed("probe"), looks+7, "and the client looks no more often than before")
	})
}
