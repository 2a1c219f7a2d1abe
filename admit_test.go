package redlock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A master that lost its memory, or a part of it, does not vote before all
// leases have ended that it may have forgotten.

func TestANewClusterServesAfterOneGuard(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.newClient(WithRestartGuard(time.Millisecond), WithTTL(10*time.Second))
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "it does not vote for another 10s")
		var lease *Lease
		took := elapsed(func() { lease, err = c.Mutex("x").Lock(t.Context()) })
		require.NoError(t, err)
		require.InDelta(t, 10*time.Second, took, float64(300*ms))
		require.Greater(t, lease.Token(), time.Now().Add(-time.Minute).UnixMicro(), "tokens begin from the clock")
		require.Less(t, lease.Token(), int64(1)<<53)

		again := net.newClient(WithRestartGuard(time.Millisecond))
		other, err := again.Mutex("y").TryLock(t.Context())
		require.NoError(t, err, "the next client need not wait")
		require.NoError(t, other.Unlock(t.Context()))
	})
}

// forget are the ways in which a node loses a lease that it granted.
var forget = map[string]func(n *testNode, before map[string]any){
	"restarted empty":                 func(n *testNode, _ map[string]any) { n.restart(nil) },
	"restarted without its last part": func(n *testNode, before map[string]any) { n.restart(before) },
	"wiped on a live connection":      func(n *testNode, _ map[string]any) { n.redis.FlushAll() },
	"replaced by another one's dataset": func(n *testNode, before map[string]any) {
		n.redis.FlushAll()
		for key := range before {
			if strings.Contains(key, ":"+n.runID) {
				delete(before, key)
			}
		}
		n.restore(before)
	},
	"without its record and its locks, but with its bar": func(n *testNode, _ map[string]any) {
		for _, key := range n.keys() {
			if !strings.HasPrefix(key, protocol.Reserved) || strings.HasPrefix(key, protocol.Key("record", n.runID)) {
				n.redis.Del(key)
			}
		}
	},
}

// twoHolders plays it: one client holds on exactly a quorum, a node of it
// forgets, and another client asks the rest.
func twoHolders(t *testing.T, net *testNet, lose func(n *testNode, before map[string]any), guard, ttl time.Duration) (lease, second *Lease) {
	a, b := net.guarded(WithRestartGuard(guard), WithTTL(ttl)), net.guarded(WithRestartGuard(guard))
	before := net.nodes[1].snapshot()
	time.Sleep(time.Second)
	net.nodes[2].down()
	synctest.Wait()
	lease, err := a.Mutex("x", WithoutRenewal()).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, net.holders(lease))
	lose(net.nodes[1], before)
	net.nodes[2].up()
	for lease.Valid() {
		second, err = b.Mutex("x").TryLock(t.Context())
		if err == nil {
			return lease, second
		}
		time.Sleep(ttl / 100)
	}
	return lease, nil
}

func TestANodeThatForgotCannotHelpASecondHolder(t *testing.T) {
	t.Parallel()
	for name, lose := range forget {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				_, second := twoHolders(t, net, lose, time.Millisecond, 10*time.Second)
				require.Nil(t, second)
			})
		})
		t.Run(name+", of a longer ttl than the others use", func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				_, second := twoHolders(t, net, lose, time.Millisecond, 40*time.Second)
				require.Nil(t, second)
			})
		})
	}
}

// The reason why admission is on: without it the same schedules do produce two
// holders.
func TestWithoutAdmissionANodeThatForgotMakesTwoHolders(t *testing.T) {
	for name, lose := range forget {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				lease, second := twoHolders(t, net, lose, 0, 10*time.Second)
				require.NotNil(t, second)
				require.True(t, lease.Valid() && second.Valid())
			})
		})
	}
}

func TestAWipedNodeVotesAgainAfterTheGuard(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(2 * time.Second))
		for i := range 5 {
			net.nodes[i].restart(nil)
			time.Sleep(3 * time.Second)
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, 5, net.holders(lease), "the node is back after its guard")
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// A client sees a quarantine of a minute. It is over sooner: the node lost its memory
// again, and another client admitted it after a shorter one.
func TestAQuarantineThatEndsSoonerIsNoticed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(time.Minute))
		net.nodes[0].restart(nil)
		time.Sleep(time.Second)
		require.ErrorContains(t, c.nodes[0].Current().Why(), "it does not vote for another")
		net.nodes[0].redis.Del(protocol.Key("quarantine", net.nodes[0].runID))
		time.Sleep(2 * admission.QuarantineInterval)
		require.True(t, c.nodes[0].Current().Votes)
	})
}

func TestARenewalHealsOntoANodeOnceItVotesAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // the attempt is over at every node
		net.nodes[0].restart(nil)
		time.Sleep(time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 2, net.holders(lease), "a node that may have forgotten a vote shows nothing")
		time.Sleep(14 * time.Second) // the guard, and a renewal
		require.Equal(t, 3, net.holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestAClientOfAnotherClusterSizeIsRefused(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		net.guarded()
		part := &testNet{t: t, nodes: net.nodes[:3], clock: net.clock}
		c := part.newClient(WithRestartGuard(time.Millisecond))
		net.clients = append(net.clients, c)
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum, "at once")
		require.ErrorContains(t, err, "its record is of a cluster of 5 nodes, this client has 3")
	})
}

func TestALongerTTLIsPutOnRecordBeforeItIsUsed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		lease, err := c.Mutex("x", WithTTL(time.Minute)).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		for _, n := range net.nodes {
			require.Equal(t, "60000", n.redis.HGet(n.record(), "ttl"))
		}
	})
}

func TestADelayedAdmissionCannotEndASecondQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c, n := net.guarded(), net.nodes[0]
		lose := func() (quarantine string) {
			n.redis.FlushAll()
			c.nodes[0].Nudge()
			synctest.Wait()
			quarantine, _ = n.redis.Get(n.key("quarantine"))
			require.NotEmpty(t, quarantine)
			return quarantine
		}
		first := lose()
		require.NotEqual(t, first, lose())
		n.redis.Del(n.key("quarantine")) // as if the second were over
		reply := n.run(protocol.Admit, 5, n.key("record"), n.key("quarantine"), n.key("bar"),
			protocol.NewestKey, n.key("record"), first, 3, 10000, 5)
		require.EqualValues(t, 0, reply, "its counters were collected for the quarantine before")
		require.False(t, n.redis.Exists(n.key("record")))
	})
}

func TestNamesUnderTheReservedPrefixAreRefused(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		_, err := net.client().Mutex(":record:x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "reserved")
	})
}

// The look at the record, every ten seconds, waits for an answer itself. That must
// not keep the node from giving up a connection that leads nowhere, such as one
// that a firewall has forgotten.
func TestASilentConnectionIsGivenUpInTimeThoughTheRecordIsLookedAt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		silent := net.nodes[0].links
		hold := func(held bool) {
			net.nodes[0].set(func(*testNode) {
				for _, l := range silent {
					l.held = held
				}
			})
		}
		hold(true)
		defer hold(false)
		p, patience := c.nodes[0].Pipe(), c.patience()
		for began := time.Now(); time.Since(began) < 2*admission.ProbeInterval; time.Sleep(ms) {
			require.LessOrEqual(t, p.Silence(c.opts.clock()), patience+patience/4*6/5+ms, "a look in every quarter, give or take a fifth of it")
		}
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, net.holders(lease), "there is a new connection")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}
