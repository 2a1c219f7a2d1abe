package lease_test

import (
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

// A lease that ExtendTo has prolonged or shortened is valid for no longer than its keys stand.

// validity is how long a lease may be trusted whose keys last for ttl.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*ms }

// requireKeysOutlast checks that the lease's keys stand at all nodes for longer than the lease is valid.
func requireKeysOutlast(t *testing.T, net *testnet.Net, l *redlock.Lease) {
	t.Helper()
	require.Equal(t, len(net.Nodes), net.Holders(l))
	for _, n := range net.Nodes {
		for _, name := range l.Names() {
			require.Greater(t, n.Redis.TTL("redlock:"+name), l.Remaining())
			if l.Shared() {
				ends, err := n.Redis.ZScore(protocol.Key("readers", "redlock:"+name), l.Owner())
				require.NoError(t, err)
				require.Greater(t, time.Until(time.UnixMilli(int64(ends))), l.Remaining())
			}
		}
	}
}

func TestExtendToLastsForItsOwnTTL(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2*time.Second), redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		for _, ttl := range []time.Duration{20 * time.Second, time.Minute, 500 * ms, time.Hour, 2 * time.Second, 3 * time.Second} {
			time.Sleep(100 * ms)
			require.NoError(t, lease.ExtendTo(t.Context(), ttl-time.Nanosecond), "it is rounded up to milliseconds")
			require.Equal(t, validity(ttl), lease.Remaining(), "%v", ttl)
			requireKeysOutlast(t, net, lease)
		}
		took := testnet.Elapsed(func() { <-lease.Done() })
		require.Equal(t, validity(3*time.Second), took)
		var lost *redlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, redlock.LostExpired, lost.Reason)
		net.RequireNoKeys()
	})
}

func TestRenewalsEndNothingEarlierThanAnExtendTo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		const ttl, long = 3 * time.Second, 30 * time.Second
		c := net.Guarded(redlock.WithTTL(ttl))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), long))
		until := lease.Until()
		require.Equal(t, validity(long), time.Until(until))
		before := net.Nodes[0].Renewals()
		for range 25 {
			time.Sleep(time.Second)
			require.Equal(t, until, lease.Until())
			requireKeysOutlast(t, net, lease)
		}
		require.Greater(t, net.Nodes[0].Renewals()-before, 20, "the usual renewals go on")
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, until, lease.Until(), "Extend ends nothing earlier, either")
		requireKeysOutlast(t, net, lease)
		for range 10 {
			time.Sleep(time.Second)
			requireKeysOutlast(t, net, lease)
		}
		require.Greater(t, lease.Until(), until)
		require.LessOrEqual(t, lease.Remaining(), validity(ttl), "the lock's ttl is back")
		for _, n := range net.Nodes {
			require.LessOrEqual(t, n.Redis.TTL("redlock:x"), ttl+ms)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A renewal puts a missing key back for as long as the lease is valid.
func TestRenewalAfterAnExtendToHealsForTheLongerTTL(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(3 * time.Second))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute))
		synctest.Wait()
		net.Nodes[1].Redis.FlushAll()
		time.Sleep(2 * time.Second)
		requireKeysOutlast(t, net, lease)
	})
}

// A lease that is shortened is valid for less at once, and no earlier renewal prolongs it.
func TestExtendToShortensTheValidityFirst(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		for _, earlier := range []func() error{
			func() error { return lease.Extend(t.Context()) },
			func() error { return lease.ExtendTo(t.Context(), time.Hour) },
		} {
			require.NoError(t, lease.Extend(t.Context()))
			net.Delay(50 * ms)
			over := make(chan error, 1)
			go func() { over <- earlier() }()
			time.Sleep(10 * ms)
			called := time.Now()
			time.AfterFunc(ms, func() {
				assert.Equal(t, validity(2*time.Second), lease.Until().Sub(called), "before any node answers")
			})
			require.NoError(t, lease.ExtendTo(t.Context(), 2*time.Second))
			require.NoError(t, <-over)
			require.Equal(t, validity(2*time.Second), lease.Until().Sub(called))
			requireKeysOutlast(t, net, lease)
		}
		net.Nodes.Freeze()
		require.ErrorIs(t, lease.ExtendTo(t.Context(), 1500*ms), redlock.ErrNoQuorum)
		require.Equal(t, validity(1500*ms)-testhook.Engine(c).NodeTimeout, lease.Remaining(), "also if no node answers")
		<-lease.Done()
	})
}

// A renewal under way must not hide that the lease is shorter now; the next one comes in time.
func TestShortenedLeaseThatRenewsItselfGoesOn(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		const ttl, short = 30 * time.Second, 2 * time.Second
		c := net.Client(redlock.WithTTL(ttl), redlock.WithNodeTimeout(100*ms))
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), short))
		require.LessOrEqual(t, lease.Remaining(), validity(short))
		time.Sleep(short)
		require.Greater(t, lease.Remaining(), ttl-2*short, "a renewal has prolonged it to the lock's ttl")
		requireKeysOutlast(t, net, lease)

		// Also if no node answered for a while.
		net.Nodes.Freeze()
		require.ErrorIs(t, lease.ExtendTo(t.Context(), short), redlock.ErrNoQuorum)
		net.Nodes.Thaw()
		time.Sleep(short)
		require.Greater(t, lease.Remaining(), ttl-2*short)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Nodes count in milliseconds: what is left of a longer ttl is rounded up.
func TestRenewalAfterAnExtendToLosesNoFractionOfAMillisecond(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithDrift(0, 0), redlock.WithoutRenewal()).Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute))
		time.Sleep(time.Second + 300*time.Microsecond)
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes {
			require.GreaterOrEqual(t, n.Redis.TTL("redlock:x"), lease.Remaining())
		}
	})
}

func TestInconclusiveExtendToKeepsTheOldValidity(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		before := lease.Until()
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		for range 2 { // the ttl is to be put on record; it cannot be
			require.ErrorIs(t, lease.ExtendTo(t.Context(), time.Minute), redlock.ErrNoQuorum)
			require.Equal(t, before, lease.Until())
		}
		net.Nodes[0].Thaw()
		net.Nodes[1].Thaw()
		time.Sleep(time.Second)
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute))
		require.Equal(t, validity(time.Minute), lease.Remaining())
	})
}

func TestExtendToDoesNotOutlastMaxHold(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Mutex(net.Client(), "x", redlock.WithMaxHold(20*time.Second)).Lock(t.Context()))
		limit := lease.Remaining() + 20*time.Second - validity(10*time.Second)
		require.NoError(t, lease.ExtendTo(t.Context(), time.Hour))
		require.Equal(t, limit, lease.Remaining())
		<-lease.Done()
		var lost *redlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, redlock.LostMaxHold, lost.Reason)
		net.RequireNoKeys()
	})
}

func TestExtendToRefusesBadTTLsAndEndedLeases(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Mutex(net.Client(), "x").Lock(t.Context()))
		until, renewals := lease.Until(), net.Nodes[0].Renewals()
		for _, ttl := range []time.Duration{-1, 0, 49 * ms, 366 * 24 * time.Hour, time.Second + 12*ms} { // two node timeouts are a second
			require.ErrorIs(t, lease.ExtendTo(t.Context(), ttl), redlock.ErrConfig, "%v", ttl)
		}
		require.Equal(t, until, lease.Until())
		require.Equal(t, renewals, net.Nodes[0].Renewals())
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, lease.ExtendTo(t.Context(), time.Minute), redlock.ErrReleased)
		require.Equal(t, renewals, net.Nodes[0].Renewals())

		lease = net.Must(net.Mutex(net.Client(), "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes.Drop(lease)
		require.ErrorIs(t, lease.ExtendTo(t.Context(), time.Minute), redlock.ErrLost)
		net.RequireNoKeys()
	})
}

// Which nodes may vote for a lease that ExtendTo prolongs beyond its lock's ttl.

// A node that forgot the lease must not vote before the longer ttl is over.
func TestGuardIsAsLongAsAnExtendTo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Guarded(redlock.WithoutRenewal()), net.Guarded()
		lease := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[2].Down()
		require.NoError(t, lease.ExtendTo(t.Context(), 40*time.Second))
		require.Equal(t, validity(40*time.Second), lease.Remaining())
		net.Nodes[1].Restart(nil)
		net.Nodes[2].Redis.Del("redlock:x") // it was away when the lease was prolonged: its key ends early
		net.Nodes[2].Drop(lease)
		net.Nodes[2].Up()
		for lease.Valid() {
			_, err := b.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "with %v left of the first lease", lease.Remaining())
			time.Sleep(200 * ms)
		}
	})
}

// Nodes that cannot put the ttl on record do not vote for it.
func TestExtendToAsksNodesThatHaveItsTTLOnRecord(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[1:].Refuse("BUSY", "probe")
		renewals := net.Nodes[1].Renewals()
		err := lease.ExtendTo(t.Context(), time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "is being registered at the node")
		require.Equal(t, renewals, net.Nodes[1].Renewals())
		require.LessOrEqual(t, lease.Remaining(), validity(10*time.Second))
		require.NoError(t, lease.ExtendTo(t.Context(), 9*time.Second), "a shorter one needs no record")
	})
}

// Commands on a connection that was given up, and that the server has not closed, may be executed
// late: a usual renewal among them would end the key early.
func TestExtendToAsksNoNodeThatKeepsOldConnections(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Nodes.Refuse("NOPERM this user has no permissions to run the 'client|kill' command", "client kill")
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute), "no connection broke yet")
		net.Nodes[1:].Cut()
		time.Sleep(time.Second)
		until := lease.Until()
		err := lease.ExtendTo(t.Context(), 2*time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "grant the user INFO, CLIENT ID and CLIENT KILL")
		require.Equal(t, until, lease.Until())
		require.NoError(t, lease.Extend(t.Context()))

		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Override = nil })
			n.Cut()
		}
		time.Sleep(time.Second)
		require.NoError(t, lease.ExtendTo(t.Context(), 2*time.Minute))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Close, and an undo that a server refuses, must know how long the keys stand.
func TestLeaseKnowsHowLongItsKeysLast(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.ExtendTo(t.Context(), time.Minute))
		require.NoError(t, lease.ExtendTo(t.Context(), 20*time.Second))
		require.Equal(t, time.Minute, testhook.Lease(lease).TTL(), "a node that was away may have the longest")
		synctest.Wait()
		net.Nodes[0].Refuse("OOM command not allowed", "release", "releaseall")
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(50 * time.Second)
		require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes()[0].Undos(), "the server still has the key, perhaps")
		time.Sleep(20 * time.Second)
		require.Zero(t, testhook.Engine(c).Cluster.Nodes()[0].Undos())
	})
}
