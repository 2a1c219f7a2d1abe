package redlock

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Its older record may be the only one that counted the last lease.
func TestANodeThatDoesNotTellItsOlderRecordIsNotAdmitted(t *testing.T) {
	for _, command := range []string{"GET", "HGETALL", "TIME"} {
		t.Run(command, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				c := net.guarded(WithTTL(time.Second))
				net.nodes[0].restart(net.nodes[0].snapshot())
				time.Sleep(100 * ms) // it is connected
				net.nodes[0].set(func(n *testNode) {
					n.override = func(cmd string, args []string) string {
						if cmd == command && (cmd != "GET" || args[0] == protocol.NewestKey) {
							return "ERR not now"
						}
						return ""
					}
				})
				time.Sleep(5 * time.Second)
				require.ErrorContains(t, c.nodes[0].Current().Why(), "not now")
				net.nodes[0].set(func(n *testNode) { n.override = nil })
				time.Sleep(3 * time.Second)
				require.True(t, c.nodes[0].Current().Votes)
			})
		})
	}
}

func TestANodeMergesItsOwnOlderRecordAndClearsItAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(time.Second))
		n, field := net.nodes[0], protocol.StripeOf("redlock:x")
		older := n.record()
		n.redis.HIncrBy(older, field, 1000)
		count := n.redis.HGet(older, field)
		bar := protocol.Key("bar", n.runID)
		require.True(t, n.redis.Exists(bar))
		n.restart(n.snapshot())
		time.Sleep(3 * time.Second)
		require.True(t, c.nodes[0].Current().Votes)
		require.NotEqual(t, older, n.record())
		require.Equal(t, count, n.redis.HGet(n.record(), field))
		require.False(t, n.redis.Exists(older))
		require.False(t, n.redis.Exists(bar))
	})
}

// Who does not tell its counters is not one that has none.
func TestANodeIsNotAdmittedByTheSilenceOfOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(time.Second))
		for _, n := range net.nodes[1:] {
			n.set(func(n *testNode) {
				n.override = func(cmd string, args []string) string {
					if cmd == "EVAL" && args[0] == protocol.Record.Text {
						return "BUSY Redis is busy running a script"
					}
					return ""
				}
			})
		}
		net.nodes[0].restart(nil)
		time.Sleep(2 * admission.MajorityLossGuard)
		require.ErrorContains(t, c.nodes[0].Current().Why(), "with the counters of 2 other nodes that vote (0 answered)")
	})
}

func TestAQuarantineTellsWhatIsLeftOfIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.newClient(WithRestartGuard(time.Millisecond))
		time.Sleep(4 * time.Second)
		require.ErrorContains(t, c.Ping(t.Context()), "it does not vote for another 6s")
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, "it does not vote for another 6s")
	})
}

func TestOnlyANodeThatVotesCanBeFoundForgetful(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		unguarded := net.client().nodes[0]
		unguarded.Forgot(unguarded.Current())
		require.True(t, unguarded.Current().Votes)

		n := net.newClient(WithRestartGuard(time.Millisecond)).nodes[0]
		time.Sleep(time.Second)
		st := n.Current()
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, st.Why(), &quarantine)
		n.Forgot(st)
		require.Same(t, st, n.Current())
		net.nodes[0].down()
		synctest.Wait()
		n.Forgot(st)
		n.Forgot(nil)
		require.Nil(t, n.Current())
	})
}

func TestANodeVotesOnWhereItsRecordCannotBeLookedAt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		c := net.guarded()
		looks := net.nodes[0].executed("probe")
		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == protocol.Probe.Text {
					return "BUSY Redis is busy running a script"
				}
				return ""
			}
		})
		time.Sleep(2 * admission.ProbeInterval)
		require.Greater(t, net.nodes[0].executed("probe"), looks)
		require.True(t, c.nodes[0].Current().Votes)
	})
}

func TestTheGuardIsTheLongestTTLOnRecord(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		long := net.guarded(WithTTL(time.Minute))
		short := net.guarded(WithTTL(2 * time.Second))
		require.NoError(t, long.Close())
		net.nodes[0].restart(nil)
		time.Sleep(time.Second)
		require.ErrorContains(t, short.nodes[0].Current().Why(), "it does not vote for another 1m0s")
	})
}

func TestAQuarantineIsLoggedOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		var told journal
		c := net.newClient(WithRestartGuard(time.Millisecond), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		for range 5 {
			time.Sleep(time.Second)
			c.nodes[0].Nudge() // it looks again
		}
		synctest.Wait()
		require.Equal(t, 1, strings.Count(told.String(), "has no record of this run"))
	})
}

func TestANodeThatDoesNotAnswerARequestIsAnError(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n := net.client().nodes[0]
		net.nodes[0].mute()
		_, err := n.Request(n.Pipe(), "GET", "x")
		require.Error(t, err)
		require.NotErrorIs(t, err, redis.ErrNil)
	})
}

// Whoever admits it may use shorter ones.
func TestARefilledRecordHasTheLongestTTLOfTheOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		long := net.guarded(WithTTL(time.Minute))
		c := net.guarded(WithTTL(2 * time.Second))
		require.NoError(t, long.Close())
		net.nodes[0].restart(nil)
		time.Sleep(61 * time.Second)
		require.True(t, c.nodes[0].Current().Votes)
		require.Equal(t, "60000", net.nodes[0].redis.HGet(net.nodes[0].record(), "ttl"))
	})
}

// Somebody begins to use a longer ttl while a node is in quarantine, which is then too
// short.
func TestALongerTTLThatIsFoundAfterAQuarantineBeginsALongerOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(2 * time.Second))
		net.nodes[0].restart(nil)
		time.Sleep(time.Second)
		for _, n := range net.nodes[1:] {
			n.redis.HSet(n.record(), "ttl", "60000")
		}
		time.Sleep(2 * time.Second)
		_, err := c.nodes[0].Right(0)
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, err, &quarantine)
		require.Greater(t, quarantine.Left, 50*time.Second)
		time.Sleep(time.Minute)
		require.True(t, c.nodes[0].Current().Votes)
	})
}

// Counters that began from the clock, each node's at another instant, are levelled: else
// the first lock of every stripe would have to.
func TestTheCountersOfANewClusterAreLevelled(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		for i, n := range net.nodes {
			n.delay = time.Duration(i) * 20 * ms
		}
		c := net.newClient(WithTTL(2*time.Second), WithNodeTimeout(400*ms), WithRestartGuard(time.Millisecond))
		lease, err := c.Mutex("first").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(3 * time.Second)
		for i := range protocol.Stripes {
			want := net.nodes[0].redis.HGet(net.nodes[0].record(), strconv.Itoa(i))
			for _, n := range net.nodes {
				require.Equal(t, want, n.redis.HGet(n.record(), strconv.Itoa(i)), "node %d, stripe %d", n.index, i)
			}
		}
		before := net.nodes[0].executed("raise")
		for i := range 50 {
			lease, err := c.Mutex(strconv.Itoa(i)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		require.Equal(t, before, net.nodes[0].executed("raise"), "no write-back")
		looks := net.nodes[0].executed("probe")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, net.nodes[0].executed("probe"), looks+7, "and no more looks than before")
	})
}
