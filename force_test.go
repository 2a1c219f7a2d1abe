package redlock

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

func TestForceUnlockTakesTheLockAwayAndRaisesTheToken(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		// One node counts far ahead, and answers late: later leases need not be above it.
		ahead := net.nodes[4]
		for _, key := range ahead.keys() {
			if strings.HasPrefix(key, protocol.Key("record", "")) {
				_, err := ahead.redis.HIncrBy(key, protocol.StripeOf("redlock:x"), 1000)
				require.NoError(t, err)
			}
		}
		ahead.set(func(n *testNode) { n.delay = 5 * ms })

		s, err := b.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), s.Holder)
		require.InDelta(t, 10*time.Second, s.Remaining, float64(time.Second))
		require.Greater(t, s.Token, lease.Token())

		next, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "it is free at once")
		require.Greater(t, next.Token(), s.Token)
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), ErrLost)
		require.NoError(t, next.Err())
		require.NoError(t, next.Unlock(t.Context()))
		time.Sleep(10 * ms)
		net.requireNoKeys()
	})
}

func TestForceUnlockHandsOverToWhoWaitsFirst(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b, c := net.client(), net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *Lease, 1)
		go func() {
			lease, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- lease
		}()
		time.Sleep(100 * ms)
		s, err := c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Line, 1)
		next := <-got
		require.Greater(t, next.Token(), s.Token)
		require.NoError(t, next.Unlock(t.Context()))
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrLost)
		synctest.Wait()
		net.requireNoKeys()
	})
}

func TestForceUnlockBreaksAHolderWhoseRenewalIsOnItsWay(t *testing.T) {
	// The renewal reaches two of four nodes before they are seized, and two after
	// they were: if it found nobody there, it would put the key back.
	inBubble(t, 4, func(t *testing.T, net *testNet) {
		a, b := net.client(WithTTL(time.Second)), net.client(WithTTL(time.Second))
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes[:2] {
			n.set(func(n *testNode) { n.links[0].delay = 20 * ms }) // a's, who connected first
		}
		for net.nodes[2].executed("renew") == 0 {
			time.Sleep(ms)
		}
		require.Zero(t, net.nodes[0].executed("renew"))
		_, err = b.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		time.Sleep(150 * ms)
		require.ErrorIs(t, lease.Err(), ErrLost, "at its next renewal")
	})
}

func TestForceUnlockFreesAKeyThatNeverExpires(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:x", "somebody's"))
		}
		s, err := c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "somebody's", s.Holder)
		require.Negative(t, s.Remaining)
		synctest.Wait()
		net.requireNoKeys()

		s, err = c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err, "nobody holds it: nothing is broken")
		require.Empty(t, s.Holder)
	})
}

func TestForceUnlockWithoutAQuorumBreaksNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes[:3] {
			n.set(func(n *testNode) {
				n.override = func(cmd string, args []string) string {
					if n.label(cmd, args) == "eval" && len(args) > 5 {
						return "NOPERM not for you"
					}
					return ""
				}
			})
		}
		s, err := b.ForceUnlock(t.Context(), "x")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "force unlock")
		require.Equal(t, lease.Owner(), s.Holder, "what is known is told")
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err(), "three nodes kept it, and renewals put it back at the others")
		require.NoError(t, lease.Unlock(t.Context()))

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.ForceUnlock(gone, "x")
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.ForceUnlock(t.Context(), "")
		require.ErrorIs(t, err, ErrConfig)
		require.NoError(t, b.Close())
		_, err = b.ForceUnlock(t.Context(), "x")
		require.ErrorIs(t, err, ErrClosed)
	})
}

// The lock is taken while it is reserved for a waiter that was called and is on its way.
func TestForceUnlockPutsTheWaiterBackForWhomItFoundTheLockReserved(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := scripted(t, net)
		require.NoError(t, n.redis.Set("redlock:x", "holder"))
		for _, ticket := range []string{firstTicket, secondTicket} {
			require.Equal(t, "holder", ask(t, eval, "redlock:x", ticket))
		}
		eval(protocol.Release, 1, "redlock:x", "holder")
		require.Equal(t, reservation+firstTicket, n.holderOf())
		conn := dialTest(t, n)
		defer conn.Close()
		_, err := conn.Do("EVAL", protocol.Seize.Text, 1, "redlock:x", "the one that forces", 10_000, "", 1)
		require.NoError(t, err)
		require.Equal(t, "the one that forces", n.holderOf())
		eval(protocol.Release, 1, "redlock:x", "the one that forces")
		require.Equal(t, reservation+firstTicket, n.holderOf(), "it keeps its place")
	})
}
