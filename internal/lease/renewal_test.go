package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
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
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
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
					net.Nodes.Set(func(n *testnet.Node) { n.Delay = rand.N(40 * ms) })
					lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
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
		lease := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes[:3] {
			n.Redis.Del("redlock:x")
		}
		// Another client locks the nodes that are free, and gives the lock back.
		other := net.Must(b.Mutex("x").TryLock(t.Context()))
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
			lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
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
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
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
			lease := net.Must(net.Mutex(c, fmt.Sprint(i)).Lock(t.Context()))
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
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		for _, n := range testhook.Engine(c).Cluster.Nodes() {
			require.True(t, n.Current().Votes)
		}
		net.Nodes[0].Redis.FlushAll()
		require.NoError(t, lease.Extend(t.Context()))
		time.Sleep(100 * ms)
		right := testhook.Engine(c).Cluster.Nodes()[0].Current()
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
			lease := net.Must(c.Mutex("x").Lock(t.Context()))
			downgraded := make(chan error, 1)
			go func() { downgraded <- lease.Downgrade(t.Context()) }()
			time.Sleep(time.Duration(instant) * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			if err := <-downgraded; err != nil {
				require.ErrorIs(t, err, redlock.ErrReleased)
			}
			time.Sleep(200 * ms)
			net.RequireNoKeys()
			next := net.Must(other.Mutex("x").TryLock(t.Context()))
			require.Greater(t, next.Token(), lease.Token())
			require.NoError(t, next.Unlock(t.Context()))
			time.Sleep(200 * ms)
		}
	})
}

// The client reports leases that it cannot renew while they are still valid.

func TestDangerIsReportedAtOnceWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(n *testnet.Node)
		after time.Duration // after the renewal began
		cause string
	}{
		"no node can be asked": {(*testnet.Node).Down, 0, "not sent"},
		"no node answers":      {(*testnet.Node).Freeze, 500 * ms, "no answer within the node timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				dangers := make(chan redlock.LeaseEvent, 10)
				client := net.Client(redlock.WithTrace(testnet.OnLease("danger", func(e redlock.LeaseEvent) { dangers <- e })))
				lease := net.Must(net.Mutex(client, "x").Lock(t.Context()))
				begins, _ := testhook.Lease(lease).Schedule()
				for _, n := range net.Nodes {
					c.fail(n)
				}
				danger := <-dangers
				require.Equal(t, begins+c.after, net.Clock.Now())
				require.ErrorContains(t, danger.Err, c.cause)
			})
		})
	}
}

func TestDangerIsReportedWhileTheLeaseIsStillValid(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var dangers []redlock.LeaseEvent
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithTrace(testnet.OnLease("danger", func(e redlock.LeaseEvent) {
			dangers = append(dangers, e)
		})))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		<-lease.Done()
		synctest.Wait()
		require.GreaterOrEqual(t, len(dangers), 3, "the client tried again and again")
		first := dangers[0]
		require.Equal(t, lease.Name(), first.Name)
		require.Equal(t, lease.Owner(), first.Owner)
		require.Greater(t, first.Remaining, time.Second)
		require.ErrorIs(t, first.Err, redlock.ErrNoQuorum)
		for i := 1; i < len(dangers); i++ {
			require.Less(t, dangers[i].Remaining, dangers[i-1].Remaining)
			require.Positive(t, dangers[i].Remaining)
		}
	})
}

func TestLeaseInDangerIsLoggedOnceUntilARenewalSucceeds(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		logged := func() int {
			synctest.Wait()
			return strings.Count(lines.String(), "a lease could not be renewed")
		}
		for times := 1; times <= 2; times++ {
			net.Nodes.Freeze()
			time.Sleep(1700 * ms) // two renewals fail
			require.Equal(t, times, logged())
			net.Nodes.Thaw()
			time.Sleep(time.Second)
			require.True(t, lease.Valid())
			require.Equal(t, times, logged())
		}
	})
}

// A node may answer a renewal after its verdict.

func TestRenewalThatIsGrantedAfterTheEndDoesNotReviveTheLease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(400*ms), redlock.WithRenewEvery(500*ms))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		time.Sleep(100 * ms)
		net.Nodes.Mute()
		// The nodes execute the renewal; their answers arrive after the end of the lease.
		<-lease.Done()
		net.Nodes.Set(func(n *testnet.Node) { n.Muting = false })
		time.Sleep(100 * ms)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.False(t, lease.Valid())
		net.RequireNoKeys()
	})
}

// Two of three nodes have lost the lease. One of them answers the renewal in time, the other
// after the renewal was granted.
func TestLossThatALateAnswerShowsEndsTheLease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(50*ms), redlock.WithRenewEvery(400*ms))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[1].Redis.Del("redlock:x")
		net.Nodes[2].Redis.Del("redlock:x")
		net.Nodes[2].Mute()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err(), "one answer has not arrived")
		net.Nodes[2].Set(func(n *testnet.Node) { n.Muting = false })
		synctest.Wait()
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		net.RequireNoKeys()
	})
}

// A node that was frozen executes a renewal when its key has ended; meanwhile the other nodes
// have the key.
func TestKeyThatEndsBeforeALateRenewalIsNoLoss(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(300*ms), redlock.WithNodeTimeout(20*ms), redlock.WithRenewEvery(100*ms))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[1].Redis.Del("redlock:x")
		net.Nodes[2].Freeze()
		time.Sleep(350 * ms)
		net.Nodes[2].Redis.Del("redlock:x")
		net.Nodes[2].Thaw()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err())
		require.Equal(t, 3, net.Holders(lease))
	})
}

// A renewal that failed has put the key back at two of three nodes that had lost it. There it proves nothing, also in
// the next renewal: another owner may have had these three meanwhile.
func TestNodesThatAFailedRenewalRestoredDoNotHideALoss(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(50*ms))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[:3].Drop(lease)
		net.Nodes[2:].Down()
		time.Sleep(3 * time.Second)
		require.NoError(t, lease.Err(), "two answers show no loss")
		require.Equal(t, 4, net.Holders(lease), "two have it anew")
		net.Nodes[2].Up()
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
	})
}

func TestSlowHookDoesNotDelayTheEndOfALease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		over := make(chan struct{})
		defer close(over)
		slow := &redlock.Trace{Lease: func(redlock.LeaseEvent) { <-over }}
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithTrace(slow))
		first := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(time.Second)
		second := net.Must(c.Mutex("y").Lock(t.Context()))
		net.Nodes.Down()
		for _, lease := range []*redlock.Lease{first, second} {
			left := lease.Remaining()
			require.Equal(t, left, testnet.Elapsed(func() { <-lease.Done() }))
		}
	})
}
