package lock_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Fencing tokens: every lease of a name has a greater one than every lease before.

// The clients' clocks are an hour apart: tokens do not read them.
func TestTokensIncreaseWhileAMinorityLosesItsMemory(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		const ttl = time.Second
		hourApart := func(d time.Duration) redlock.Option {
			return testnet.WithClock(func() time.Duration { return net.Clock.Now() + d })
		}
		clients := []*redlock.Client{net.Guarded(redlock.WithTTL(ttl)), net.Guarded(redlock.WithTTL(ttl), hourApart(time.Hour)), net.Guarded(redlock.WithTTL(ttl), hourApart(-time.Hour))}
		var last int64
		lock := func() {
			lease := net.Must(clients[rand.N(3)].Mutex("x").Lock(t.Context()))
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			require.NoError(t, lease.Unlock(t.Context()))
		}
		for range 30 {
			away, forgets := net.Nodes[rand.N(5)], net.Nodes[rand.N(5)]
			before := forgets.Snapshot()
			away.Down()
			lock()
			lock()
			switch rand.N(3) {
			case 0:
				forgets.Restart(nil)
			case 1:
				forgets.Restart(before)
			case 2:
				forgets.Redis.FlushAll()
			}
			lock()
			time.Sleep(rand.N(2 * ttl))
			away.Up()
			lock()
			time.Sleep(3 * ttl) // a minority at a time: all vote again
		}
	})
}

// standsOnAQuorum plays this schedule: lease A stands on exactly a quorum; one node of it
// returns without its tail; the rest of the quorum goes down; lease B is granted.
func standsOnAQuorum(t *testing.T, net *testnet.Net, opts ...redlock.ClientOption) (a, b int64) {
	c := net.Guarded(append([]redlock.ClientOption{redlock.WithTTL(time.Second)}, opts...)...)
	nodes := net.Nodes
	before := nodes[0].Snapshot()
	nodes[3].Down()
	nodes[4].Down()
	time.Sleep(100 * ms)
	for i := range 5 { // A's counters are well ahead of the others'
		m := c.Mutex("x")
		if i == 4 {
			m = net.Mutex(c, "x")
		}
		lease := net.Must(m.Lock(t.Context()))
		a = lease.Token()
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
	}
	nodes[0].Restart(before)
	nodes[3].Up()
	nodes[4].Up()
	time.Sleep(5 * time.Second) // admitted by the others' counters, A's quorum among them
	nodes[1].Down()
	nodes[2].Down()
	lease := net.Must(c.Mutex("x").Lock(t.Context()))
	return a, lease.Token()
}

func TestTokenOutlivesTheTailOfANodeThatCounted(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := standsOnAQuorum(t, net)
		require.Greater(t, b, a)
	})
}

func TestTokensDecreaseInTheSameScheduleWithoutAdmission(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := standsOnAQuorum(t, net, redlock.WithRestartGuard(0))
		require.LessOrEqual(t, b, a)
	})
}

// Three nodes grant the first lease at different counts. Unless they are raised to its token,
// the next quorum can stand below it.
func TestNodesAreRaisedToTheTokenIfTheQuorumDisagrees(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		field := protocol.StripeOf("redlock:x")
		raise := func(n *testnet.Node, by int) {
			n.Redis.HIncrBy(n.Record(), field, by)
		}
		raise(net.Nodes[0], 1000)
		net.Nodes[3].Down()
		net.Nodes[4].Down()
		time.Sleep(100 * ms)
		first := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, first.Unlock(t.Context()))
		require.Equal(t, 1, net.Nodes[1].Raises())

		net.Nodes[0].Down()
		net.Nodes[3].Up()
		net.Nodes[4].Up()
		time.Sleep(2 * time.Second)
		second := net.Must(c.Mutex("x").Lock(t.Context()))
		require.Greater(t, second.Token(), first.Token())
		require.NoError(t, second.Unlock(t.Context()))
	})
}

func TestRaiseWithoutAQuorumGrantsNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		net.Nodes[0].Redis.HIncrBy(net.Nodes[0].Record(), protocol.StripeOf("redlock:x"), 1000)
		net.Nodes[1:].Refuse("OOM command not allowed", "raise")
		net.Nodes[2].Down()
		time.Sleep(100 * ms)
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "OOM")
		net.Nodes[2].Up()
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

func TestNearlyEveryLeaseTakesOneRoundTrip(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		const leases = 500
		for range leases {
			lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		}
		raised := 0
		for _, n := range net.Nodes {
			raised = max(raised, n.Raises())
		}
		require.Less(t, raised, leases/100)
	})
}

func TestTokenIsZeroWithoutFencing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithoutFencing())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.Zero(t, lease.Token())
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The context ends while the nodes are raised to the token.
func TestRaiseReportsThatItsContextEnded(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		net.Nodes[0].Redis.HIncrBy(net.Nodes[0].Record(), protocol.StripeOf("redlock:x"), 1000)
		net.Nodes[2].Down()
		net.Delay(20 * ms)
		ctx, cancel := context.WithTimeout(t.Context(), 60*ms) // a round trip and a half
		defer cancel()
		_, err := net.Mutex(c, "x").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// The counter of a name is part of docs/protocol.md: clients must agree on it.
func TestCounterOfANameIsItsHash(t *testing.T) {
	require.Equal(t, "161", protocol.StripeOf("redlock:lock-0"))
	require.NotEqual(t, protocol.StripeOf("redlock:a"), protocol.StripeOf("redlock:b"))
}
