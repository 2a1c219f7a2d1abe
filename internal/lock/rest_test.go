package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A minimum hold: the lock rests after a lease that ended early.

const hold = 3 * time.Second

// resting makes a lock with a minimum hold.
func resting(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex {
	return c.Mutex("x", append([]redlock.LockOption{redlock.WithMinHold(hold)}, opts...)...)
}

// requireRest checks that the lock rests for so long yet, after the owner's lease, and is free then.
func requireRest(t *testing.T, net *testnet.Net, owner string, left time.Duration) {
	t.Helper()
	synctest.Wait()
	c := net.Client()
	_, err := c.Mutex("x").TryLock(t.Context())
	var held *redlock.HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, held.Resting)
	require.Equal(t, owner, held.Holder)
	require.InDelta(t, left, held.Remaining, float64(20*ms))
	require.ErrorContains(t, err, "resting after its lease of")
	s := net.Status(c.Inspect(t.Context(), "x"))
	require.True(t, s.Resting)
	require.Equal(t, owner, s.Holder)
	require.InDelta(t, left, s.Remaining, float64(20*ms))
	time.Sleep(left - 20*ms)
	net.Held(c.Mutex("x").TryLock(t.Context()))
	time.Sleep(40 * ms)
	lease := net.Must(c.Mutex("x").TryLock(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	net.RequireNoKeys()
}

func TestLockRestsHoweverItsLeaseEnds(t *testing.T) {
	type ends map[string]struct {
		opts []redlock.LockOption
		held time.Duration
		by   func(t *testing.T, net *testnet.Net, c *redlock.Client, l *redlock.Lease)
	}
	never := func(*testing.T, *testnet.Net, *redlock.Client, *redlock.Lease) {}
	for name, end := range (ends{
		"Unlock": {held: time.Second, by: func(t *testing.T, _ *testnet.Net, _ *redlock.Client, l *redlock.Lease) {
			require.Less(t, testnet.Elapsed(func() { require.NoError(t, l.Unlock(t.Context())) }), 10*ms)
			require.NoError(t, l.Unlock(t.Context()), "a second one")
			require.ErrorIs(t, l.Err(), redlock.ErrReleased)
		}},
		"Close": {held: time.Second, by: func(t *testing.T, _ *testnet.Net, c *redlock.Client, _ *redlock.Lease) {
			require.Less(t, testnet.Elapsed(func() { require.NoError(t, c.Close()) }), 10*ms)
		}},
		"the longest hold":  {opts: []redlock.LockOption{redlock.WithMaxHold(time.Second)}, held: time.Second, by: never},
		"without a renewal": {opts: []redlock.LockOption{redlock.WithTTL(hold), redlock.WithoutRenewal()}, held: hold - 32*ms, by: never},
	}) {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				began := time.Now()
				lease := net.Must(resting(c, end.opts...).Lock(t.Context()))
				owner := lease.Owner()
				time.Sleep(end.held)
				end.by(t, net, c, lease)
				requireRest(t, net, owner, hold-time.Since(began))
			})
		})
	}
}

// The end of a Do, also by a panic, and a writer of an RWMutex.
func TestLockRestsAfterADo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for range 2 {
			owner := ""
			began := time.Now()
			require.Panics(t, func() {
				_ = c.RWMutex("x", redlock.WithMinHold(hold)).Do(t.Context(), func(_ context.Context, lease *redlock.Lease) error {
					owner = lease.Owner()
					panic("at once")
				})
			})
			requireRest(t, net, owner, hold-time.Since(began))
		}
	})
}

// A lease that was held for long enough frees the lock by the same script as any other.
func TestLeaseThatWasHeldForLongEnoughFreesTheLock(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(resting(net.Client()).Lock(t.Context()))
		time.Sleep(hold)
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
		require.Zero(t, net.Nodes[0].Executed("rest"))
		require.Equal(t, 1, net.Nodes[0].Executed("release"))
	})
}

func TestCrashLeavesTheTTL(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(resting(a).Lock(t.Context()))
		net.Die(a, lease)
		time.Sleep(hold + time.Second)
		held := net.Held(b.Mutex("x").TryLock(t.Context()))
		require.False(t, held.Resting)
		time.Sleep(10*time.Second - hold)
		net.Must(b.Mutex("x").TryLock(t.Context()))
	})
}

// What a refused attempt left does not rest.
func TestRollbackNeverRests(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes[:2] {
			require.NoError(t, n.Redis.Set("redlock:x", "them"))
		}
		net.Held(resting(c).TryLock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := resting(c).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Empty(t, holderAt(net.Nodes[2]))
		require.Zero(t, net.Nodes[2].Executed("rest"))
		require.NotZero(t, net.Nodes[2].Executed("release"))
	})
}

// A lease stands on two of three nodes, and one of these forgets. The lease is lost, and the lock
// rests all the same: the node that forgot does not vote, and the other one keeps the key.
func TestLockRestsAfterALeaseThatEndsAsOneServerForgets(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.NewClient(redlock.WithRestartGuard(10*time.Second)), net.NewClient()
		time.Sleep(15 * time.Second) // all nodes are admitted
		require.NoError(t, net.Nodes[2].Redis.Set("redlock:x", "them"))
		start := time.Now()
		lease := net.Must(resting(c).TryLock(t.Context()))
		synctest.Wait()
		net.Nodes[2].Redis.Del("redlock:x")
		net.Nodes[1].Restart(nil)
		time.Sleep(500 * ms) // the client has connected again
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
		for time.Since(start) < hold-200*ms {
			time.Sleep(100 * ms)
			_, err := other.Mutex("x").TryLock(t.Context())
			require.Error(t, err)
		}
	})
}

// The first waiter, whichever it asked for, learns when the rest ends, though it saw a ttl before.
func TestFirstWaiterComesWhenTheRestEnds(t *testing.T) {
	for _, kind := range []testnet.Kind{testnet.Alone, testnet.Shared, testnet.Several} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			net.Kind = kind
			a, b := net.Client(), net.Client()
			net.Nodes[0].Set(func(n *testnet.Node) { n.Delay = 2 * ms })
			began := time.Now()
			lease := net.Must(resting(a).Lock(t.Context()))
			next := net.Begin(net.Mutex(b, "x").Lock)
			time.Sleep(hold - 400*ms) // the rest is shorter than the pace of the first waiter
			require.NoError(t, lease.Unlock(t.Context()))
			lease = <-next
			require.InDelta(t, hold, time.Since(began), float64(30*ms))
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(10 * ms)
			net.RequireNoKeys()
			net.RequireNoTraces()
		})
	}
}

// leaseOfARefusedWaiter has a holder release the lock to a waiter, and returns the waiter's lease. Node 2
// has another key: it has refused the waiter, which still stands in the queue there.
func leaseOfARefusedWaiter(t *testing.T, net *testnet.Net, holder, waiter *redlock.Mutex) *redlock.Lease {
	t.Helper()
	held := net.Must(holder.Lock(t.Context()))
	synctest.Wait() // all nodes have granted it before another client asks
	require.NoError(t, net.Nodes[2].Redis.Set("redlock:x", "them"))
	next := net.Begin(waiter.Lock)
	time.Sleep(100 * ms)
	net.RequireNothingParked()
	require.NoError(t, held.Unlock(t.Context()))
	lease := <-next
	require.Contains(t, net.Nodes[2].Keys(), "redlock::queue:redlock:x")
	return lease
}

// A waiter's lease rests too, and its ticket leaves the queues also where it was refused, and where a renewal
// brought the key later.
func TestLockRestsAfterAWaitersLease(t *testing.T) {
	for _, healed := range []bool{false, true} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) { lockRestsAfterAWaitersLease(t, net, healed) })
	}
}

func lockRestsAfterAWaitersLease(t *testing.T, net *testnet.Net, healed bool) {
	a, b := net.Client(), net.Client()
	began := time.Now()
	lease := leaseOfARefusedWaiter(t, net, a.Mutex("x"), resting(b))
	if healed {
		net.Nodes[2].Redis.Del("redlock:x")
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(lease))
	}
	require.NoError(t, lease.Unlock(t.Context()))
	net.RequireNoTraces()
	net.Nodes[2].Redis.Del("redlock:x")
	requireRest(t, net, lease.Owner(), hold-time.Since(began)+100*ms)
}

// ForceUnlock ends the rest, also by a client whose locks have a minimum hold by default.
func TestForceUnlockEndsTheRest(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a := net.Client(redlock.WithMinHold(hold))
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		s := net.Status(a.ForceUnlock(t.Context(), "x"))
		require.True(t, s.Resting)
		require.Equal(t, lease.Owner(), s.Holder)
		require.Greater(t, s.Token, lease.Token())
		net.RequireNoKeys()
	})
}

// The holder's lease may end between ForceUnlock's question and its command, which takes the lock all the same.
func TestForceUnlockTakesALockThatBeginsToRest(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(resting(a).Lock(t.Context()))
		net.Delay(10 * ms)
		time.AfterFunc(15*ms, func() { _ = lease.Unlock(context.Background()) })
		s := net.Status(b.ForceUnlock(t.Context(), "x"))
		require.True(t, s.Resting, "%+v", s)
		net.RequireNoKeys()
	})
}

func TestMinimumHoldIsForOneNameHeldAlone(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for name, opt := range map[string]redlock.Option{"hold": redlock.WithMinHold(hold), "delay": redlock.WithLockDelay(hold)} {
			rw := c.RWMutex(name, opt)
			_, err := rw.RLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			_, err = rw.RLocker().TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			_, err = c.Multi([]string{name, "other"}, opt).TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			lease := net.Must(rw.Lock(t.Context()))
			require.ErrorIs(t, lease.Downgrade(t.Context()), redlock.ErrConfig)
			require.False(t, lease.Shared())
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock(t.Context()))
		}
		for _, opts := range [][]redlock.LockOption{
			{redlock.WithMinHold(0)}, {redlock.WithMinHold(-1)}, {redlock.WithMinHold(10*time.Second + 1)},
			{redlock.WithMinHold(hold), redlock.WithTTL(hold - ms)},
			{redlock.WithLockDelay(0)}, {redlock.WithLockDelay(-1)}, {redlock.WithLockDelay(365*24*time.Hour - 9*time.Second)},
		} {
			_, err := c.Mutex("x", opts...).TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
	})
}

// A client's releases of leases that rest, and its hooks.
func TestEventOfAReleaseHasTheRest(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		var rests []time.Duration
		c := net.Client(redlock.WithTrace(testnet.OnLease("released", func(e redlock.LeaseEvent) {
			rests = append(rests, e.Rests)
		})))
		lease := net.Must(resting(c).Lock(t.Context()))
		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(hold)
		lease = net.Must(resting(c).Lock(t.Context()))
		time.Sleep(hold)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Equal(t, []time.Duration{hold - time.Second, 0}, rests)
	})
}

// An attempt of the same caller finds the lock resting, too: nobody holds it.
func TestHolderOfARestingLockIsRefusedAsAnyOther(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := resting(net.Client())
		began := time.Now()
		for k := range 3 {
			require.NoError(t, m.Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil }))
			require.InDelta(t, time.Duration(k)*hold, time.Since(began), float64(50*ms))
		}
		net.Held(m.TryLock(t.Context()))
		synctest.Wait()
		require.Zero(t, testhook.Engine(net.Clients[0]).Renewer.Len())
		require.Contains(t, holderAt(net.Nodes[0]), protocol.Resting)
	})
}

// Nodes that do not get the release of a lease with a minimum hold at once.

// A release that comes late makes the lock rest for what is left then.
func TestLateReleaseRestsForWhatIsLeft(t *testing.T) {
	for away, left := range map[time.Duration]time.Duration{500 * ms: hold - 500*ms, hold - 100*ms: 100 * ms, hold + time.Second: 0} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			late := net.Nodes[2]
			lease := net.Must(resting(c).Lock(t.Context()))
			began := time.Now()
			synctest.Wait()
			late.Down()
			synctest.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes()[2].Undos())
			time.Sleep(away)
			require.Equal(t, lease.Owner(), holderAt(late))
			late.Up()
			var before time.Duration                                // the undo was executed after that
			for testhook.Engine(c).Cluster.Nodes()[2].Undos() > 0 { // the pauses between dials are random
				before = time.Since(began)
				time.Sleep(ms)
			}
			rests := protocol.Resting + lease.Owner()
			left = max(hold-time.Since(began), 0)
			switch {
			case left == 0 && before < hold: // the rest ended in this millisecond, before the undo or after it
				require.Contains(t, []string{"", rests}, holderAt(late))
				return
			case left == 0:
				require.Empty(t, holderAt(late))
				return
			}
			require.Equal(t, rests, holderAt(late))
			require.InDelta(t, left, late.Redis.TTL("redlock:x"), float64(3*ms))
		})
	}
}

// A server that was frozen executes the release late, and its answer is lost: the undo shortens the rest to
// what is left, or ends it.
func TestUndoShortensTheRestOfAReleaseThatWasExecutedLate(t *testing.T) {
	for name, frozen := range map[string]time.Duration{"some is left": time.Second, "nothing is left": hold + time.Second} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				late := net.Nodes[2]
				lease := net.Must(resting(c).Lock(t.Context()))
				began := time.Now()
				synctest.Wait()
				late.Freeze()
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(frozen - 100*ms)
				late.Down() // what was sent is executed before the next connection
				late.Thaw()
				synctest.Wait()
				require.Equal(t, protocol.Resting+lease.Owner(), holderAt(late))
				require.InDelta(t, hold, late.Redis.TTL("redlock:x"), float64(100*ms))
				late.Up()
				for testhook.Engine(c).Cluster.Nodes()[2].Undos() > 0 {
					time.Sleep(ms)
				}
				if left := hold - time.Since(began); left > 0 {
					require.InDelta(t, left, late.Redis.TTL("redlock:x"), float64(3*ms))
				} else {
					require.Empty(t, holderAt(late))
				}
			})
		})
	}
}

// A server that has forgotten the scripts gets the release with its text.
func TestLockRestsAtAServerThatForgotTheScripts(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(resting(net.Client()).Lock(t.Context()))
		conn := testnet.Dial(t, net.Nodes[0])
		_, err := conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, lease.Unlock(t.Context()))
		requireRest(t, net, lease.Owner(), hold)
	})
}

// schedule is jobs without a length that two machines run, each tick on the one that gets the lock.
type schedule struct {
	period   time.Duration
	hold     time.Duration // the minimum hold; 0: none
	apart    time.Duration // the second machine's clock is behind by this
	lateness time.Duration // every other tick, both machines wake so late
	ticks    int
}

// runs returns how often the job of each tick was run.
func (s schedule) runs(t *testing.T, net *testnet.Net) []int64 {
	counts := make([]atomic.Int64, s.ticks)
	began := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for _, behind := range []time.Duration{0, s.apart} {
		var opts []redlock.LockOption
		if s.hold > 0 {
			opts = append(opts, redlock.WithMinHold(s.hold))
		}
		m := net.Client().Mutex("job", opts...)
		all.Go(func() {
			for tick := range s.ticks {
				at := began.Add(time.Duration(tick)*s.period + behind + s.lateness*time.Duration(tick%2))
				time.Sleep(time.Until(at))
				lease, err := m.TryLock(context.Background())
				if errors.Is(err, redlock.ErrHeld) {
					continue
				}
				if assert.NoError(t, err) {
					counts[tick].Add(1)
					assert.NoError(t, lease.Unlock(context.Background()))
				}
			}
		})
	}
	all.Wait()
	runs := make([]int64, s.ticks)
	for tick := range runs {
		runs[tick] = counts[tick].Load()
	}
	return runs
}

// With a minimum hold d each tick runs exactly once, for each difference of the clocks below d and each
// lateness below the period less d. The nodes are 1 ms away, and that is how near the test goes to both.
func TestMinimumHoldRunsEachTickOnceWhateverTheClocksDiffer(t *testing.T) {
	const period, d, trip = 10 * time.Second, 4 * time.Second, 5 * ms
	once := []int64{1, 1, 1, 1, 1, 1}
	for _, apart := range []time.Duration{ms, 100 * ms, 500 * ms, 1900 * ms, d / 2, d - time.Second, d - 100*ms, d - trip} {
		for _, lateness := range []time.Duration{0, ms, time.Second, period/2 - d/2, period - d - 100*ms, period - d - trip} {
			t.Run(fmt.Sprint(apart, " ", lateness), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					net.Delay(ms)
					require.Equal(t, once, schedule{period, d, apart, lateness, len(once)}.runs(t, net))
				})
			})
		}
	}
}

// Beyond these limits, and without a minimum hold, ticks run twice or not at all: the test above can fail.
func TestWithoutAMinimumHoldTicksRunTwice(t *testing.T) {
	const period, d = 10 * time.Second, 4 * time.Second
	for name, c := range map[string]struct {
		schedule schedule
		runs     []int64
	}{
		"no minimum hold":       {schedule{period, 0, 500 * ms, 0, 4}, []int64{2, 2, 2, 2}},
		"clocks too far apart":  {schedule{period, d, d + 100*ms, 0, 4}, []int64{2, 2, 2, 2}},
		"late by too much":      {schedule{period, d, 0, period - d + 100*ms, 4}, []int64{1, 1, 0, 1}},
		"late, without a limit": {schedule{period, 0, 500 * ms, period - d + 100*ms, 4}, []int64{2, 2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				require.Equal(t, c.runs, c.schedule.runs(t, net))
			})
		})
	}
}

// Machines whose clocks agree ask at the same instant, and split the votes. While one node is down, each of them sees
// an owner that may have the lock at that node too; still one of them gets the lock.
func TestOneOfTheCallersThatAskAtTheSameInstantGetsTheLockWhileANodeIsDown(t *testing.T) {
	for _, machines := range []int{2, 3} {
		for _, nodes := range []int{3, 5} {
			t.Run(fmt.Sprint(machines, " of ", nodes), func(t *testing.T) {
				testnet.InBubble(t, nodes, func(t *testing.T, net *testnet.Net) {
					var callers []*redlock.Mutex
					for range machines {
						c := net.Client()
						require.NoError(t, c.Ping(t.Context()))
						callers = append(callers, c.Mutex("job"))
					}
					net.Nodes[0].Down()
					for range 8 {
						time.Sleep(time.Second)
						var all sync.WaitGroup
						var leases atomic.Int64
						for _, m := range callers {
							all.Go(func() {
								lease, err := m.TryLock(context.Background())
								if err == nil {
									leases.Add(1)
									time.Sleep(100 * ms)
									assert.NoError(t, lease.Unlock(context.Background()))
								} else {
									assert.ErrorIs(t, err, redlock.ErrHeld)
								}
							})
						}
						all.Wait()
						require.EqualValues(t, 1, leases.Load())
					}
				})
			})
		}
	}
}
