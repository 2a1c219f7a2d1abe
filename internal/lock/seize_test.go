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
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		// One node counts far ahead, and answers late: later leases need not be above it.
		ahead := net.Nodes[4]
		for _, key := range ahead.Keys() {
			if strings.HasPrefix(key, protocol.Key("record", "")) {
				_, err := ahead.Redis.HIncrBy(key, protocol.StripeOf("redlock:x"), 1000)
				require.NoError(t, err)
			}
		}
		ahead.Set(func(n *testnet.Node) { n.Delay = 5 * ms })

		s := net.Status(b.ForceUnlock(t.Context(), "x"))
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
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		got := net.Begin(b.Mutex("x").Lock)
		time.Sleep(100 * ms)
		s := net.Status(c.ForceUnlock(t.Context(), "x"))
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
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		net.Nodes[:2].Set(func(n *testnet.Node) { n.Links[0].Delay = 20 * ms }) // a's: a connected first
		for net.Nodes[2].Executed("renew") == 0 {
			time.Sleep(ms)
		}
		require.Zero(t, net.Nodes[0].Executed("renew"))
		net.Status(b.ForceUnlock(t.Context(), "x"))
		time.Sleep(150 * ms)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost, "at its next renewal")
	})
}

func TestForceUnlockWithoutAQuorumBreaksNothing(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		net.Nodes[:3].Refuse("NOPERM not for you", "seize")
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
		_, err := conn.Do("EVAL", protocol.Seize.Text(), 2, "redlock:x", "record", "the one that forces", 10_000, "7", 1, 0)
		require.NoError(t, err)
		require.Equal(t, "the one that forces", holderAt(n))
		eval(protocol.Release, testnet.Keys("redlock:x", "the one that forces")...)
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderAt(n), "it keeps its position")
	})
}

// A lock that changes hands while ForceUnlock is under way, or after it has returned.

// The command that takes the lock is held up on its way to one node. When it arrives
// there, ForceUnlock has returned, and another caller has the lock at just a quorum.
func TestLateForceUnlockLeavesALaterLeaseAlone(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		f := net.Client()
		slow := net.Nodes[1]
		link := slow.Links[0]
		slow.Set(func(*testnet.Node) { link.Delay = 2 * ms })
		a, b, c := net.Client(redlock.WithTTL(600*ms)), net.Client(), net.Client()
		first := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		asked := slow.Executed("inspect")
		go func() {
			for slow.Executed("inspect") == asked { // Inspect's question
				time.Sleep(100 * time.Microsecond)
			}
			slow.Set(func(*testnet.Node) { link.Delay = 1500 * ms })
		}()
		net.Status(f.ForceUnlock(t.Context(), "x"))
		require.ErrorIs(t, first.Err(), redlock.ErrLost)
		time.Sleep(ms)
		net.Nodes[2].Down()
		time.Sleep(10 * ms)
		later := net.Must(net.Mutex(b, "x").TryLock(t.Context()))
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		net.Held(c.Mutex("x").TryLock(t.Context()))
		require.NoError(t, later.Unlock(t.Context()))
	})
}

// The lock changes hands between the question for its holder and the attempt to take it.
func TestForceUnlockTakesTheLockFromItsNextHolderToo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, f := net.Client(), net.Client(), net.Client()
		first := net.Must(a.Mutex("x").Lock(t.Context()))
		for _, n := range net.Nodes {
			link := n.Links[2]
			n.Set(func(*testnet.Node) { link.Delay = 50 * ms })
		}
		handedOn := make(chan *redlock.Lease, 1)
		time.AfterFunc(100*ms, func() { // Inspect was answered, and the command that seizes the lock is on its way
			_ = first.Unlock(t.Context())
			next, _ := b.Mutex("x").TryLock(t.Context())
			handedOn <- next
		})
		s := net.Status(f.ForceUnlock(t.Context(), "x"))
		next := <-handedOn
		require.NotNil(t, next)
		require.Equal(t, next.Owner(), s.Holder)
		<-next.Done()
		require.ErrorIs(t, next.Err(), redlock.ErrLost)
	})
}

// The call keeps the lock for half a second, which is a node timeout here, and takes four node
// timeouts beside that.
func TestForceUnlockBesideSilentNodesTakesFiveNodeTimeoutsAtMost(t *testing.T) {
	const timeout = 500 * ms
	for name, silent := range map[string]int{"a minority": 2, "a majority": 3, "all": 5} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
				c, holder := net.Client(), net.Client()
				_, err := holder.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				synctest.Wait() // it has all nodes
				net.Nodes[:silent].Freeze()
				took := testnet.Elapsed(func() { _, err = c.ForceUnlock(t.Context(), "x") })
				t.Log(took)
				require.LessOrEqual(t, took, 5*timeout)
				if silent < 3 {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
				}
				net.Nodes[:silent].Thaw()
			})
		})
	}
}
