package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// holderAt returns the value of the lock's key.
func holderAt(n *testnet.Node) string {
	value, _ := n.Redis.Get("redlock:x")
	return value
}

func TestForceUnlockTakesTheLockAwayAndRaisesTheToken(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		// One node counts far ahead, and answers late: later leases need not be above it.
		ahead := net.Nodes[4]
		for _, key := range ahead.Keys() {
			if strings.HasPrefix(key, protocol.Key("record", "")) {
				_, err := ahead.Redis.HIncrBy(key, protocol.StripeOf("redlock:x"), 1000)
				require.NoError(t, err)
			}
		}
		ahead.Set(func(n *testnet.Node) { n.Delay = 5 * ms })

		s, err := b.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), s.Holder)
		require.InDelta(t, 10*time.Second, s.Remaining, float64(time.Second))
		require.Greater(t, s.Token, lease.Token())

		next, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "it is free at once")
		require.Greater(t, next.Token(), s.Token)
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.NoError(t, next.Err())
		require.NoError(t, next.Unlock(t.Context()))
		time.Sleep(10 * ms)
		net.RequireNoKeys()
	})
}

func TestForceUnlockHandsOffToTheFirstWaiter(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(), net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- lease
		}()
		time.Sleep(100 * ms)
		s, err := c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Queue, 1)
		next := <-got
		require.Greater(t, next.Token(), s.Token)
		require.NoError(t, next.Unlock(t.Context()))
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestForceUnlockEndsALeaseWhoseRenewalIsOnItsWay(t *testing.T) {
	// The renewal reaches two of four nodes before they are seized, and two after
	// that: if it found no key there, it would put its own back.
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithTTL(time.Second)), net.Client(redlock.WithTTL(time.Second))
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.Nodes[:2] {
			n.Set(func(n *testnet.Node) { n.Links[0].Delay = 20 * ms }) // a's: a connected first
		}
		for net.Nodes[2].Executed("renew") == 0 {
			time.Sleep(ms)
		}
		require.Zero(t, net.Nodes[0].Executed("renew"))
		_, err = b.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		time.Sleep(150 * ms)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost, "at its next renewal")
	})
}

func TestForceUnlockWithoutAQuorumBreaksNothing(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.Nodes[:3] {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if cmd == "EVAL" && args[0] == protocol.Seize.Text() {
						return "NOPERM not for you"
					}
					return ""
				}
			})
		}
		s, err := b.ForceUnlock(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "force unlock")
		require.Equal(t, lease.Owner(), s.Holder, "the status has the holder all the same")
		time.Sleep(5 * time.Second)
		require.Equal(t, 5, net.Holders(lease), "three nodes kept it, and a renewal put it back at the others")
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(t.Context()))

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.ForceUnlock(gone, "x")
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.ForceUnlock(t.Context(), "")
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.NoError(t, b.Close())
		_, err = b.ForceUnlock(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

// ForceUnlock takes the lock while it is reserved for a waiter that was woken.
func TestForceUnlockKeepsThePositionOfTheWaiterThatHadTheReservation(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		require.NoError(t, n.Redis.Set("redlock:x", "holder"))
		for _, ticket := range []string{testnet.FirstTicket, testnet.SecondTicket} {
			require.Equal(t, "holder", testnet.Ask(t, eval, "redlock:x", ticket))
		}
		eval(protocol.Release, testnet.Keys("redlock:x", "holder")...)
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderAt(n))
		conn := testnet.Dial(t, n)
		defer conn.Close()
		_, err := conn.Do("EVAL", protocol.Seize.Text(), 1, "redlock:x", "the one that forces", 10_000, "", 1, 0)
		require.NoError(t, err)
		require.Equal(t, "the one that forces", holderAt(n))
		eval(protocol.Release, testnet.Keys("redlock:x", "the one that forces")...)
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderAt(n), "it keeps its position")
	})
}
