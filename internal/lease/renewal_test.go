package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A renewal prolongs its lease and puts its key back.

func TestLeaseOutlastsItsTTLWhileAMinorityFails(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		const ttl = 3 * time.Second
		c := net.Client(redlock.WithTTL(ttl))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		done := lease.Done()
		for range 20 {
			away := net.Nodes[rand.N(5)]
			also := net.Nodes[rand.N(5)]
			down := func(n *testnet.Node) { n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused }); n.Cut() }
			for _, n := range []*testnet.Node{away, also} {
				[]func(*testnet.Node){(*testnet.Node).Freeze, (*testnet.Node).Mute, down, func(n *testnet.Node) { n.Redis.FlushAll() }}[rand.N(4)](n)
			}
			time.Sleep(rand.N(2 * ttl))
			for _, n := range []*testnet.Node{away, also} {
				n.Set(func(n *testnet.Node) { n.Holding, n.Muting, n.Refusing = false, false, nil })
			}
			// Reconnected, and two renewals later: where the answer "created anew" to the first comes after its
			// verdict, the node counts as one that lost the key until the second is granted. Two more losses
			// before that are a quorum's, since nobody knows which came first.
			time.Sleep(time.Second + 2*ttl/3 + testhook.Engine(c).NodeTimeout)
			require.Equal(t, 5, net.Holders(lease), "the key is back at every node")
			select {
			case <-done:
				t.Fatal(lease.Err())
			default:
			}
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLeaseThatIsCutOffEndsBeforeItsKeysExpire(t *testing.T) {
	t.Parallel()
	cuts := map[string]func(n *testnet.Node){
		"cut": func(n *testnet.Node) { n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused }); n.Cut() },
		// The node executes requests, and its answers never arrive.
		"answers lost": func(n *testnet.Node) {
			n.Set(func(n *testnet.Node) { n.Muting, n.Refusing = true, testnet.ErrRefused })
		},
		"frozen link": (*testnet.Node).Freeze,
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			for range testnet.Tries(5, 350) {
				testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
					const ttl = 2 * time.Second
					c := net.Client(redlock.WithTTL(ttl))
					for _, n := range net.Nodes {
						n.Set(func(n *testnet.Node) { n.Delay = rand.N(40 * ms) })
					}
					lease, err := net.Mutex(c, "x").Lock(t.Context())
					require.NoError(t, err)
					ctx, cancel := lease.Context(t.Context())
					defer cancel()
					time.Sleep(rand.N(3 * ttl))
					for _, n := range net.Nodes {
						cut(n)
						time.Sleep(rand.N(10 * ms))
					}
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
					require.ErrorIs(t, lease.Err(), redlock.ErrLost)
					<-lease.Done()
					require.GreaterOrEqual(t, net.Holders(lease), 3, "no other owner can have a quorum yet")
				})
			}
		})
	}
}

func TestLeaseWithoutItsKeyAtAQuorumEndsAtTheNextRenewal(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithTTL(3*time.Second)), net.Client()
		lease, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[:3] {
			n.Redis.Del("redlock:x")
		}
		// Another client locks the nodes that are free, and gives the lock back.
		other, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 3, net.Holders(other))
		require.NoError(t, other.Unlock(t.Context()))
		took := testnet.Elapsed(func() { <-lease.Done() })
		require.LessOrEqual(t, took, renewEvery(a)+ms)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		net.RequireNoKeys()
	})
}

func TestUnlockAtAnyInstantOfAScheduledRenewalLeavesNoKey(t *testing.T) {
	t.Parallel()
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second))
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = time.Duration(i+1) * 3 * ms })
		}
		for range testnet.Tries(300, 10_000) {
			lease, err := net.Mutex(c, "x").Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(renewEvery(c) - rand.N(renewEvery(c)/3) + rand.N(30*ms))
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(20 * ms)
			net.RequireNoKeys()
		}
	})
}

// renewEvery returns the time from the start of one renewal of the client's leases to the next.
func renewEvery(c *redlock.Client) time.Duration {
	return testhook.Lock(c.Mutex("x")).Terms().Lease.RenewEvery
}

// A renewal could not prolong the lease any more.
func TestLeaseThatReachesItsMaxHoldIsNotRenewed(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithMaxHold(2*time.Second))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		<-lease.Done()
		require.Zero(t, net.Nodes[0].Renewals())
	})
}

func TestRenewalsAreSpreadButShareTheirInstants(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		every := renewEvery(c)
		instants := make(map[time.Duration]bool)
		for i := range 100 {
			start := net.Clock.Now()
			lease, err := net.Mutex(c, fmt.Sprint(i)).Lock(t.Context())
			require.NoError(t, err)
			at, _ := testhook.Lease(lease).Schedule()
			require.LessOrEqual(t, at, start+every)
			require.GreaterOrEqual(t, at, start+every*3/4-every/64-1)
			require.Zero(t, at%(every/64+1))
			instants[at] = true
		}
		require.Greater(t, len(instants), 5)
		require.Less(t, len(instants), 20)
	})
}

func TestRenewalIsNotGivenUpBeforeTheNodeTimeout(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(100 * ms)
		l := testhook.Lease(lease)
		begins, _ := l.Schedule()
		requireUnderWay := func() {
			_, underWay := l.Schedule()
			require.True(t, underWay)
		}
		time.Sleep(begins - net.Clock.Now() + ms)
		requireUnderWay()
		require.Nil(t, l.Tick())
		requireUnderWay()
		time.Sleep(300 * ms)
		require.Greater(t, lease.Remaining(), 9*time.Second)
	})
}

func TestRenewalFindsANodeThatForgot(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		for _, n := range testhook.Engine(c).Cluster.Nodes {
			require.True(t, n.Current().Votes)
		}
		net.Nodes[0].Redis.FlushAll()
		require.NoError(t, lease.Extend(t.Context()))
		time.Sleep(100 * ms)
		right := testhook.Engine(c).Cluster.Nodes[0].Current()
		require.True(t, right == nil || !right.Votes, "long before the client looks at its record")
	})
}

// Nodes answer at different times, so some have made the lease a share when it is released,
// and others have not.
func TestUnlockAtAnyInstantOfADowngradeLeavesNoKeys(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(redlock.WithoutRenewal()), net.Client()
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = time.Duration(i+1) * 7 * ms })
		}
		for instant := range 80 {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			downgraded := make(chan error, 1)
			go func() { downgraded <- lease.Downgrade(t.Context()) }()
			time.Sleep(time.Duration(instant) * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			if err := <-downgraded; err != nil {
				require.ErrorIs(t, err, redlock.ErrReleased)
			}
			time.Sleep(200 * ms)
			net.RequireNoKeys()
			next, err := other.Mutex("x").TryLock(t.Context())
			require.NoError(t, err)
			require.Greater(t, next.Token(), lease.Token())
			require.NoError(t, next.Unlock(t.Context()))
			time.Sleep(200 * ms)
		}
	})
}
