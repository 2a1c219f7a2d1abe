package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Answers to renewals that come when they have been decided.

func TestARenewalDecidedTooLateRevivesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(time.Second), WithNodeTimeout(400*ms), WithRenewEvery(500*ms))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(100 * ms)
		for _, n := range net.nodes {
			n.mute()
		}
		// The renewal is executed, its answers come back after the end.
		<-lease.Done()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.muting = false })
		}
		time.Sleep(100 * ms)
		require.ErrorIs(t, lease.Err(), ErrLost)
		require.False(t, lease.Valid())
		net.requireNoKeys()
	})
}

// Of three nodes two have lost the lease; the renewal hears of one in time, and of the
// other when it has been granted.
func TestALossThatARenewalHearsOfTooLateCounts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(time.Second), WithNodeTimeout(50*ms), WithRenewEvery(400*ms))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.nodes[1].redis.Del("redlock:x")
		net.nodes[2].redis.Del("redlock:x")
		net.nodes[2].mute()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err(), "one answer is not heard")
		net.nodes[2].set(func(n *testNode) { n.muting = false })
		synctest.Wait()
		require.ErrorIs(t, lease.Err(), ErrLost)
		net.requireNoKeys()
	})
}

// A node that was frozen executes a renewal when its key has ended; the lease stands
// on others meanwhile.
func TestAKeyThatEndsBeforeALateRenewalIsNoLoss(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(300*ms), WithNodeTimeout(20*ms), WithRenewEvery(100*ms))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.nodes[1].redis.Del("redlock:x")
		net.nodes[2].freeze()
		time.Sleep(350 * ms)
		net.nodes[2].redis.Del("redlock:x")
		net.nodes[2].thaw()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err())
		require.Equal(t, 3, net.holders(lease))
	})
}
