package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A lock delay: after a lease that ended by itself the lock stays taken for a while.

const (
	delay    = 5 * time.Second
	validity = 9898 * ms // of the default ttl
)

// delayed makes a lock with a lock delay.
func delayed(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex {
	return c.Mutex("x", append([]redlock.LockOption{redlock.WithLockDelay(delay)}, opts...)...)
}

func TestLockIsDelayedAfterALeaseThatEndedByItself(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []redlock.LockOption
		fails bool          // renewals do
		until time.Duration // the end of the validity, at least
		why   redlock.LostReason
	}{
		"expired":   {opts: []redlock.LockOption{redlock.WithoutRenewal()}, until: validity, why: redlock.LostExpired},
		"max hold":  {opts: []redlock.LockOption{redlock.WithMaxHold(2 * time.Second)}, until: 2 * time.Second, why: redlock.LostMaxHold},
		"no quorum": {fails: true, until: validity, why: redlock.LostNoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				a, b := net.Client(), net.Client()
				began := time.Now()
				lease := net.Must(delayed(a, c.opts...).Lock(t.Context()))
				require.InDelta(t, min(c.until, validity), lease.Remaining(), float64(ms))
				if c.fails {
					refuseRenewals(net)
				}
				<-lease.Done()
				require.InDelta(t, c.until, time.Since(began), float64(10*ms))
				var lost *redlock.LostError
				require.ErrorAs(t, lease.Err(), &lost)
				require.Equal(t, c.why, lost.Reason)
				require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
				synctest.Wait()
				for i, n := range net.Nodes {
					require.Zero(t, n.Executed("release"))
					require.Zero(t, testhook.Engine(a).Cluster.Nodes()[i].Undos())
					require.Equal(t, lease.Owner(), holderAt(n))
				}
				net.Held(b.Mutex("x").TryLock(t.Context()))
				next := net.Must(b.Mutex("x").Lock(t.Context()))
				require.GreaterOrEqual(t, time.Since(began), c.until+delay)
				require.NoError(t, next.Unlock(t.Context()))
			})
		})
	}
}

// refuseRenewals has the nodes refuse renewals, which leaves the keys alone.
func refuseRenewals(net *testnet.Net) {
	net.Nodes.Refuse("OOM command not allowed", "renew")
}

// What is given back is free at once, and so is what was revoked; a renewal, and a healed node, have the
// delay on their keys.
func TestLockIsNotDelayedWhereItIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, net *testnet.Net, c *redlock.Client, l *redlock.Lease){
		"Unlock": func(t *testing.T, _ *testnet.Net, _ *redlock.Client, l *redlock.Lease) {
			require.NoError(t, l.Unlock(t.Context()))
		},
		"Close": func(t *testing.T, _ *testnet.Net, c *redlock.Client, _ *redlock.Lease) { require.NoError(t, c.Close()) },
		"revoked": func(t *testing.T, net *testnet.Net, _ *redlock.Client, l *redlock.Lease) {
			net.Nodes[0].Drop(l)
			net.Nodes[1].Drop(l)
			require.ErrorIs(t, l.Extend(t.Context()), redlock.ErrLost)
		},
		"ForceUnlock": func(t *testing.T, _ *testnet.Net, c *redlock.Client, l *redlock.Lease) {
			_, err := c.ForceUnlock(t.Context(), "x")
			require.NoError(t, err)
			<-l.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client(redlock.WithLockDelay(delay))
				lease := net.Must(c.Mutex("x").Lock(t.Context()))
				synctest.Wait()
				require.Equal(t, 10*time.Second+delay, net.Nodes[2].Redis.TTL("redlock:x"))
				net.Nodes[2].Drop(lease)
				time.Sleep(ms)
				require.NoError(t, lease.Extend(t.Context()))
				synctest.Wait()
				for _, n := range net.Nodes {
					require.Equal(t, 10*time.Second+delay, n.Redis.TTL("redlock:x"))
				}
				require.InDelta(t, validity, lease.Remaining(), float64(ms))
				end(t, net, c, lease)
				net.RequireNoKeys()
				net.Must(net.Client().Mutex("x").TryLock(t.Context()))
			})
		})
	}
}

// A failed attempt is undone at once.
func TestRollbackIsNotDelayed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes[:2] {
			require.NoError(t, n.Redis.Set("redlock:x", "them"))
		}
		net.Held(delayed(net.Client()).TryLock(t.Context()))
		synctest.Wait()
		require.Empty(t, holderAt(net.Nodes[2]))
	})
}

// The ttl on record, by which nodes that lost their memory wait, is that of the keys.
func TestDelayGoesOnRecord(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		client := func(opts ...redlock.ClientOption) *redlock.Client {
			c, err := redlock.New([]redlock.Pool{net.Nodes[0]}, append(opts, redlock.WithLogger(nil))...)
			require.NoError(t, err)
			net.Add(c)
			return c
		}
		recorded := func() string {
			synctest.Wait()
			return net.Nodes[0].Redis.HGet(net.Nodes[0].Record(), "ttl")
		}
		c := client()
		time.Sleep(15 * time.Second)
		require.Equal(t, "10000", recorded())
		net.Must(delayed(c).TryLock(t.Context()))
		require.Equal(t, "15000", recorded())
		client(redlock.WithLockDelay(20 * time.Second))
		time.Sleep(time.Second)
		require.Equal(t, "30000", recorded(), "of a client's locks, before the first of them is used")
	})
}

// The lease of a waiter that ended by itself leaves the queues where the waiter was refused, and its key alone.
func TestWaitersTicketLeavesWhereItsKeysStay(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := leaseOfARefusedWaiter(t, net, a.Mutex("x"), delayed(b, redlock.WithMaxHold(time.Second)))
		<-lease.Done()
		net.RequireNoTraces()
		require.Equal(t, lease.Owner(), holderAt(net.Nodes[0]))
		require.Equal(t, lease.Owner(), holderAt(net.Nodes[1]))
		for i := range net.Nodes {
			require.Zero(t, testhook.Engine(b).Cluster.Nodes()[i].Undos())
		}
	})
}

// With both, an Unlock rests, and an end by itself is delayed.
func TestMinimumHoldAndLockDelayTogether(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(resting(c, redlock.WithLockDelay(delay)).Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		requireRest(t, net, lease.Owner(), hold)
		lease = net.Must(resting(c, redlock.WithLockDelay(delay), redlock.WithMaxHold(time.Second)).Lock(t.Context()))
		<-lease.Done()
		synctest.Wait()
		require.Equal(t, lease.Owner(), holderAt(net.Nodes[0]))
		require.Equal(t, 9*time.Second+delay, net.Nodes[0].Redis.TTL("redlock:x").Round(10*ms))
	})
}

// ExtendTo changes for how long a lease may be trusted. The keys stand for the lock delay longer, and
// until the minimum hold is over.
func TestExtendToKeepsTheLockDelayAndTheMinimumHold(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		for _, to := range []time.Duration{20 * time.Second, 2 * time.Second} {
			lease := net.Must(c.Mutex("x", redlock.WithLockDelay(5*time.Second)).Lock(t.Context()))
			require.NoError(t, lease.ExtendTo(t.Context(), to))
			synctest.Wait()
			require.InDelta(t, to.Seconds(), lease.Remaining().Seconds(), 0.5)
			for _, n := range net.Nodes {
				require.InDelta(t, (to + 5*time.Second).Seconds(), n.Redis.TTL("redlock:x").Seconds(), 0.5)
			}
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lease := net.Must(c.Mutex("y", redlock.WithMinHold(8*time.Second)).Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), 2*time.Second))
		synctest.Wait()
		require.InDelta(t, 2, lease.Remaining().Seconds(), 0.5)
		for _, n := range net.Nodes {
			require.InDelta(t, 8, n.Redis.TTL("redlock:y").Seconds(), 0.5)
		}
	})
}
