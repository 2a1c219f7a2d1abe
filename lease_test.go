package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Validity: never longer than ttl − elapsed − drift.

const ms = time.Millisecond

func TestValidityCountsFromBeforeTheFirstSend(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 30 * ms })
		}
		lease, err := c.Mutex("x", WithTTL(time.Second), WithNodeTimeout(100*ms), WithDrift(0.01, 2*ms), WithoutRenewal()).Lock(t.Context())
		require.NoError(t, err)
		want := time.Second - 60*ms - 12*ms // ttl − a round trip − drift
		require.Equal(t, want, lease.Remaining())
		require.WithinDuration(t, time.Now().Add(want), lease.Until(), 0)

		time.Sleep(500 * ms)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, want, lease.Remaining(), "a renewal counts from its own start")

		took := elapsed(func() { <-lease.Done() })
		require.Equal(t, want, took, "Done closes when the validity ends, not when the network says so")
		require.False(t, lease.Valid())
		require.Zero(t, lease.Remaining())
		require.ErrorIs(t, lease.Err(), ErrLost)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrLost)
	})
}

func TestVotesThatComeTooLateGrantNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		// The machine sleeps while the ballot is under way: timers stood still,
		// the keys' ttl did not.
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 10 * ms })
		}
		go func() {
			time.Sleep(15 * ms)
			net.clock.sleep(time.Minute)
		}()
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		var q QuorumError
		require.ErrorAs(t, err, &q)
		require.True(t, q.Late)
		require.ErrorContains(t, err, "no validity was left")
		time.Sleep(100 * ms)
		net.requireNoKeys()
	})
}

func TestASuspendedMachineWakesWithoutItsLeases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		done := lease.Done()
		time.Sleep(2 * time.Second)
		net.clock.sleep(time.Hour)
		require.False(t, lease.Valid(), "at once")
		require.ErrorIs(t, lease.Err(), ErrLost)
		took := elapsed(func() { <-done })
		require.LessOrEqual(t, took, suspicion)
	})
}

func TestExtendAfterTheEndGrantsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		lease, err := c.Mutex("x", WithTTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // the slower grants have arrived
		for _, n := range net.nodes {
			n.redis.SetTTL("redlock:x", time.Hour) // a node whose clock stands still
		}
		net.clock.sleep(988 * ms) // no timer has fired yet
		require.ErrorIs(t, lease.Extend(t.Context()), ErrLost)
		time.Sleep(10 * ms)
		for _, n := range net.nodes {
			require.Zero(t, n.executed("renew"))
			require.Equal(t, 1, n.executed("acquire"))
		}
		net.requireNoKeys()
	})
}

func TestAnAnswerAfterTheEndRevivesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		lease, err := c.Mutex("x", WithTTL(time.Second), WithNodeTimeout(200*ms)).Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 60 * ms })
		}
		time.Sleep(900 * ms) // the answer comes at 1 020, the validity ends at 988
		require.ErrorIs(t, lease.Extend(t.Context()), ErrLost)
		require.ErrorIs(t, lease.Err(), ErrLost)
		time.Sleep(200 * ms)
		net.requireNoKeys()
	})
}

func TestExtendPutsTheKeyBackAtAMinority(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // the slower grants have arrived
		net.nodes[0].redis.FlushAll()
		net.nodes[1].redis.FlushAll()
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 5, net.holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestExtendOfALeaseThatAQuorumLostEndsIt(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // the slower grants have arrived
		for _, n := range net.nodes[:3] {
			n.redis.FlushAll()
		}
		require.ErrorIs(t, lease.Extend(t.Context()), ErrLost)
		<-lease.Done()
		net.requireNoKeys() // what was put back is released
	})
}

func TestUnlockOfALeaseThatWasTakenAwaySaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // the slower grants have arrived
		for _, n := range net.nodes {
			n.redis.FlushAll()
		}
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrLost)
	})
}

func TestAnInconclusiveExtendLeavesTheOldValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		before := lease.Until()
		net.nodes[0].freeze()
		net.nodes[1].freeze()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		err = lease.Extend(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, lease.Extend(t.Context()), ErrNoQuorum)
		require.True(t, lease.Valid())
		require.Equal(t, before, lease.Until())
	})
}

func TestUnlockAtAnyInstantOfARenewalLeavesNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		for i, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = time.Duration(i+1) * 7 * ms })
		}
		for instant := range 80 {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			extended := make(chan error, 1)
			go func() { extended <- lease.Extend(t.Context()) }()
			time.Sleep(time.Duration(instant) * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			if err := <-extended; err != nil {
				require.ErrorIs(t, err, ErrReleased)
			}
			time.Sleep(200 * ms)
			net.requireNoKeys()
		}
	})
}

func TestLeasesEndInTheOrderOfTheirValidity(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		ends := map[*Lease]time.Duration{}
		for _, ttl := range []time.Duration{5, 2, 8, 1, 3} {
			lease, err := c.Mutex(ttl.String(), WithTTL(ttl*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			ends[lease] = lease.Remaining()
		}
		start := time.Now()
		for lease, end := range ends {
			go func() {
				<-lease.Done()
				if took := time.Since(start); took != end {
					t.Errorf("%s ended after %v, its validity was %v", lease.Name(), took, end)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		net.requireNoKeys()
	})
}

// The first renewal after the loss is inconclusive: one node has put the key back, the
// other's answer comes too late. That both have the key when the next one asks shows
// nothing. (Found by the simulation.)
func TestALeaseTakenAwayAtAQuorumEndsThoughARenewalThatFailedPutItBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(3 * time.Second))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.nodes {
			n.redis.Del("redlock:x")
		}
		net.nodes[2].down()
		net.nodes[1].mute()
		time.Sleep(c.opts.renewal() + c.opts.voteTimeout())
		require.Equal(t, 2, net.holders(lease), "the renewal has put it back")
		net.nodes[1].set(func(n *testNode) { n.muting = false })
		select {
		case <-lease.Done():
		case <-time.After(2 * c.opts.voteTimeout()):
		}
		require.ErrorIs(t, lease.Err(), ErrLost)
		net.requireNoKeys()
	})
}
