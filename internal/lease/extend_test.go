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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
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
		for _, n := range net.Nodes {
			n.Freeze()
		}
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.ExtendTo(t.Context(), short))
		require.LessOrEqual(t, lease.Remaining(), validity(short))
		time.Sleep(short)
		require.Greater(t, lease.Remaining(), ttl-2*short, "a renewal has prolonged it to the lock's ttl")
		requireKeysOutlast(t, net, lease)

		// Also if no node answered for a while.
		for _, n := range net.Nodes {
			n.Freeze()
		}
		require.ErrorIs(t, lease.ExtendTo(t.Context(), short), redlock.ErrNoQuorum)
		for _, n := range net.Nodes {
			n.Thaw()
		}
		time.Sleep(short)
		require.Greater(t, lease.Remaining(), ttl-2*short)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Nodes count in milliseconds: what is left of a longer ttl is rounded up.
func TestRenewalAfterAnExtendToLosesNoFractionOfAMillisecond(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client(redlock.WithDrift(0, 0), redlock.WithoutRenewal()).Mutex("x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(net.Client(), "x", redlock.WithMaxHold(20*time.Second)).Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := net.Mutex(net.Client(), "x").Lock(t.Context())
		require.NoError(t, err)
		until, renewals := lease.Until(), net.Nodes[0].Renewals()
		for _, ttl := range []time.Duration{-1, 0, 49 * ms, 366 * 24 * time.Hour, time.Second + 12*ms} { // two node timeouts are a second
			require.ErrorIs(t, lease.ExtendTo(t.Context(), ttl), redlock.ErrConfig, "%v", ttl)
		}
		require.Equal(t, until, lease.Until())
		require.Equal(t, renewals, net.Nodes[0].Renewals())
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, lease.ExtendTo(t.Context(), time.Minute), redlock.ErrReleased)
		require.Equal(t, renewals, net.Nodes[0].Renewals())

		lease, err = net.Mutex(net.Client(), "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes {
			n.Drop(lease)
		}
		require.ErrorIs(t, lease.ExtendTo(t.Context(), time.Minute), redlock.ErrLost)
		net.RequireNoKeys()
	})
}
