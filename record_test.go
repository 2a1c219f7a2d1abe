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
						if cmd == command && (cmd != "GET" || args[0] == reserved+"newest") {
							return "ERR not now"
						}
						return ""
					}
				})
				time.Sleep(5 * time.Second)
				require.ErrorContains(t, c.nodes[0].standing.Load().why, "not now")
				net.nodes[0].set(func(n *testNode) { n.override = nil })
				time.Sleep(3 * time.Second)
				require.True(t, c.nodes[0].standing.Load().votes)
			})
		})
	}
}

// The counters begin from the clock only where no quorum of admitted nodes can exist:
// another admitted node may be silent, and stand higher.
func TestCountersBeginFromTheClockOnlyWhereNoQuorumIsAdmitted(t *testing.T) {
	for n := 1; n <= 7; n++ {
		p := &peers{nodes: n, quorum: n/2 + 1}
		for admitted := range n {
			for barred := 1; admitted+barred <= n; barred++ {
				g := &gathered{admitted: admitted, barred: barred, now: firstCount + 7}
				g.counts[0], g.counts[1] = firstCount+5, firstCount+9
				others := n - barred // at most so many are admitted
				require.Equal(t, admitted >= p.quorum || others < p.quorum, g.enough(p), "%d: %d admitted, %d barred", n, admitted, barred)
				require.Equal(t, admitted < p.quorum && others < p.quorum, g.byClock)
				if g.byClock {
					require.Equal(t, []int64{firstCount + 7, firstCount + 9, firstCount + 7}, g.counts[:3])
				} else {
					require.Equal(t, []int64{firstCount + 5, firstCount + 9, 0}, g.counts[:3])
				}
			}
		}
	}
}

func TestANodeMergesItsOwnOlderRecordAndClearsItAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(time.Second))
		n, field := net.nodes[0], stripeOf("redlock:x")
		older := n.record()
		n.redis.HIncrBy(older, field, 1000)
		count := n.redis.HGet(older, field)
		bar := keyOf("bar", n.runID)
		require.True(t, n.redis.Exists(bar))
		n.restart(n.snapshot())
		time.Sleep(3 * time.Second)
		require.True(t, c.nodes[0].standing.Load().votes)
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
					if cmd == "EVAL" && args[0] == recordScript.text {
						return "BUSY Redis is busy running a script"
					}
					return ""
				}
			})
		}
		net.nodes[0].restart(nil)
		time.Sleep(2 * heedful)
		require.ErrorContains(t, c.nodes[0].standing.Load().why, "with the counters of 2 other nodes that vote (0 answered)")
	})
}

func TestRecordsMergeToTheGreatest(t *testing.T) {
	g := new(gathered)
	g.merge(map[string]string{"0": "5", "1": "7", "2": "?", "ttl": "1500"})
	g.merge(map[string]string{"0": "6", "1": "3", "ttl": "500"})
	g.merge(map[string]string{"ttl": "?"})
	require.Equal(t, []int64{6, 7, 0}, g.counts[:3])
	require.Equal(t, 1500*ms, g.longest)
}

func TestATimeThatIsNotToldIsAnError(t *testing.T) {
	require.ErrorIs(t, new(gathered).time(nil, errRefused), errRefused)
}

// Only records of known runs are cleared away: where runs are unknown, they are other
// clients'.
func TestOnlyTheRecordOfAKnownRunIsGarbage(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n := net.client().nodes[0]
		for _, c := range []struct {
			older, olderRun, run string
			goes                 bool
		}{
			{"old", "a", "b", true},
			{"", "", "b", false},
			{"old", unknownRun, "b", false},
			{"old", "a", unknownRun, false},
		} {
			a := &admission{node: n, runID: c.run}
			older, bar := (&gathered{older: c.older, olderRun: c.olderRun}).garbage(a, "new")
			if c.goes {
				require.Equal(t, []string{"old", keyOf("bar", "a")}, []string{older, bar})
			} else {
				require.Equal(t, []string{"new", keyOf("bar", c.run)}, []string{older, bar})
			}
		}
	})
}

func TestTheLongestTTLIsNeverForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n := net.client().nodes[0]
		for _, ttl := range []time.Duration{20, 40, 30} {
			n.want(ttl * time.Second)
			n.peers.learn(2 * ttl * time.Second)
		}
		require.Equal(t, 40*time.Second, n.wanted())
		require.Equal(t, 80*time.Second, n.guard())
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
		unguarded.forgot(unguarded.standing.Load())
		require.True(t, unguarded.standing.Load().votes)

		n := net.newClient(WithRestartGuard(time.Millisecond)).nodes[0]
		time.Sleep(time.Second)
		st := n.standing.Load()
		require.Positive(t, st.until, "in quarantine")
		n.forgot(st)
		require.Same(t, st, n.standing.Load())
		net.nodes[0].down()
		synctest.Wait()
		n.forgot(st)
		n.forgot(nil)
		require.Nil(t, n.standing.Load())
	})
}

func TestANodeVotesOnWhereItsRecordCannotBeLookedAt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		c := net.guarded()
		looks := net.nodes[0].executed("probe")
		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == probeScript.text {
					return "BUSY Redis is busy running a script"
				}
				return ""
			}
		})
		time.Sleep(2 * probeEvery)
		require.Greater(t, net.nodes[0].executed("probe"), looks)
		require.True(t, c.nodes[0].standing.Load().votes)
	})
}

func TestTheGuardIsTheLongestTTLOnRecord(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		net.guarded(WithTTL(time.Minute))
		require.Equal(t, time.Minute, net.guarded(WithTTL(2 * time.Second)).nodes[0].guard())
	})
}

func TestAQuarantineIsLoggedOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		var told journal
		c := net.newClient(WithRestartGuard(time.Millisecond), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		for range 5 {
			time.Sleep(time.Second)
			c.nodes[0].nudge() // it looks again
		}
		synctest.Wait()
		require.Equal(t, 1, strings.Count(told.String(), "has no record of this run"))
	})
}

func TestANodeThatDoesNotAnswerARequestIsAnError(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n := net.client().nodes[0]
		net.nodes[0].mute()
		_, err := n.request(n.pipe.Load(), "GET", "x")
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
		require.True(t, c.nodes[0].standing.Load().votes)
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
		st := c.nodes[0].standing.Load()
		require.False(t, st.votes)
		require.Greater(t, st.until-c.opts.clock(), 50*time.Second)
		time.Sleep(time.Minute)
		require.True(t, c.nodes[0].standing.Load().votes)
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
		for i := range stripes {
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
