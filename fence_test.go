package redlock

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Fencing tokens: every lease of a name has a greater one than every lease before.

// The clients' clocks are an hour apart: tokens do not read them.
func TestTokensIncreaseWhileAMinorityLosesItsMemory(t *testing.T) {
	slowWithRace(t)
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		const ttl = time.Second
		hourApart := func(d time.Duration) Option {
			return withClock(func() time.Duration { return net.clock.now() + d })
		}
		clients := []*Client{net.guarded(WithTTL(ttl)), net.guarded(WithTTL(ttl), hourApart(time.Hour)), net.guarded(WithTTL(ttl), hourApart(-time.Hour))}
		var last int64
		lock := func() {
			lease, err := clients[rand.N(3)].Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			require.NoError(t, lease.Unlock(t.Context()))
		}
		for range 30 {
			away, forgets := net.nodes[rand.N(5)], net.nodes[rand.N(5)]
			before := forgets.snapshot()
			away.down()
			lock()
			lock()
			switch rand.N(3) {
			case 0:
				forgets.restart(nil)
			case 1:
				forgets.restart(before)
			case 2:
				forgets.redis.FlushAll()
			}
			lock()
			time.Sleep(rand.N(2 * ttl))
			away.up()
			lock()
			time.Sleep(3 * ttl) // a minority at a time: all vote again
		}
	})
}

// standsOnAQuorum is the schedule: lease A stands on exactly a quorum; one node
// of it returns without its tail; the rest of the quorum goes down; lease B.
func standsOnAQuorum(t *testing.T, net *testNet, opts ...Option) (a, b int64) {
	c := net.guarded(append([]Option{WithTTL(time.Second)}, opts...)...)
	nodes := net.nodes
	before := nodes[0].snapshot()
	nodes[3].down()
	nodes[4].down()
	time.Sleep(100 * ms)
	for range 5 { // A's counters are well ahead of what the others have
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		a = lease.Token()
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
	}
	nodes[0].restart(before)
	nodes[3].up()
	nodes[4].up()
	time.Sleep(5 * time.Second) // admitted by the others' counters, A's quorum among them
	nodes[1].down()
	nodes[2].down()
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	return a, lease.Token()
}

func TestATokenOutlivesTheTailOfANodeThatCounted(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := standsOnAQuorum(t, net)
		require.Greater(t, b, a)
	})
}

func TestWithoutAdmissionTheSameScheduleCountsBackwards(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := standsOnAQuorum(t, net, WithRestartGuard(0))
		require.LessOrEqual(t, b, a)
	})
}

// Lease A is granted by three nodes at different counts. Unless the token is
// written back, the next quorum can stand below it.
func TestATokenIsWrittenBackWhereTheQuorumDisagrees(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.guarded()
		field := protocol.StripeOf("redlock:x")
		raise := func(n *testNode, by int) {
			n.redis.HIncrBy(n.record(), field, by)
		}
		raise(net.nodes[0], 1000)
		net.nodes[3].down()
		net.nodes[4].down()
		time.Sleep(100 * ms)
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Unlock(t.Context()))
		require.Equal(t, 1, net.nodes[1].executed("raise"))

		net.nodes[0].down()
		net.nodes[3].up()
		net.nodes[4].up()
		time.Sleep(2 * time.Second)
		second, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, second.Token(), first.Token())
		require.NoError(t, second.Unlock(t.Context()))
	})
}

func TestAWriteBackWithoutAQuorumGrantsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		net.nodes[0].redis.HIncrBy(net.nodes[0].record(), protocol.StripeOf("redlock:x"), 1000)
		for _, n := range net.nodes[1:] {
			n.set(func(n *testNode) {
				n.override = func(cmd string, args []string) string {
					if cmd == "EVALSHA" && args[0] == protocol.Raise.SHA {
						return "OOM command not allowed"
					}
					return ""
				}
			})
		}
		net.nodes[2].down()
		time.Sleep(100 * ms)
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "OOM")
		net.nodes[2].up()
		time.Sleep(time.Second)
		net.requireNoKeys()
	})
}

func TestNearlyEveryLeaseTakesOneRoundTrip(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.guarded()
		const leases = 500
		for range leases {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lifted := 0
		for _, n := range net.nodes {
			lifted = max(lifted, n.executed("raise"))
		}
		require.Less(t, lifted, leases/100)
	})
}

func TestWithoutFencingTheTokenIsZero(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithFencing(false))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Zero(t, lease.Token())
		require.NoError(t, lease.Unlock(t.Context()))
		require.Zero(t, net.nodes[0].executed("hincrby"))
	})
}
