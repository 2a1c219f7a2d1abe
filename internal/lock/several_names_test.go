package lock_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Two names share a counter: a lease of both counts it once, and its token follows those of each.
func TestNamesThatShareACounterAreCountedOnce(t *testing.T) {
	const first, second = "name-68", "name-86"
	stripe := protocol.StripeOf("redlock:" + first)
	require.Equal(t, stripe, protocol.StripeOf("redlock:"+second))
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		count := func() (all []int64) {
			synctest.Wait()
			for _, n := range net.Nodes {
				value, err := strconv.ParseInt(n.Redis.HGet(n.Record(), stripe), 10, 64)
				require.NoError(t, err)
				all = append(all, value)
			}
			return all
		}
		var last int64
		for _, m := range []*redlock.Mutex{c.Mutex(first), c.Multi([]string{first, second}), c.Mutex(second), c.Multi([]string{second, "other", first})} {
			before := count()
			lease, err := m.TryLock(t.Context())
			require.NoError(t, err)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			after := count()
			for i := range after {
				if len(lease.Names()) == 2 {
					require.Equal(t, before[i]+1, after[i])
				}
				require.Equal(t, last, after[i])
			}
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// A set of one name is as good as a mutex of that name.
func TestSetOfOneNameAndItsMutexExcludeEachOther(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		var last int64
		for _, pair := range [][2]*redlock.Mutex{
			{c.Mutex("x"), other.Multi([]string{"x"})},
			{c.Multi([]string{"x"}), other.Mutex("x")},
			{c.Multi([]string{"x"}), other.Multi([]string{"x"})},
			{c.RWMutex("x").RLocker(), other.Multi([]string{"x"})},
			{c.Multi([]string{"x"}), other.RWMutex("x").RLocker()},
		} {
			lease, err := pair[0].TryLock(t.Context())
			require.NoError(t, err)
			require.Equal(t, "x", lease.Name())
			require.Equal(t, []string{"x"}, lease.Names())
			require.Equal(t, 3, net.Holders(lease))
			_, err = pair[1].TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
			if !lease.Shared() {
				require.Greater(t, lease.Token(), last)
				last = lease.Token()
			}
			require.NoError(t, lease.Extend(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
			next, err := pair[1].TryLock(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, next.Token(), last)
			last = next.Token()
			require.NoError(t, next.Unlock(t.Context()))
			net.RequireNoKeys()
		}
	})
}
