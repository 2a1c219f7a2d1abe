package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
		first, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		asked := slow.Executed("inspect")
		go func() {
			for slow.Executed("inspect") == asked { // Inspect's question
				time.Sleep(100 * time.Microsecond)
			}
			slow.Set(func(*testnet.Node) { link.Delay = 1500 * ms })
		}()
		_, err = f.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.ErrorIs(t, first.Err(), redlock.ErrLost)
		time.Sleep(ms)
		net.Nodes[2].Down()
		time.Sleep(10 * ms)
		later, err := net.Mutex(b, "x").TryLock(t.Context())
		require.NoError(t, err)
		net.Nodes[2].Up()
		time.Sleep(2 * time.Second)
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NoError(t, later.Unlock(t.Context()))
	})
}

// The lock changes hands between the question for its holder and the attempt to take it.
func TestForceUnlockTakesTheLockFromItsNextHolderToo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, f := net.Client(), net.Client(), net.Client()
		first, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
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
		s, err := f.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
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
				for _, n := range net.Nodes[:silent] {
					n.Freeze()
				}
				took := testnet.Elapsed(func() { _, err = c.ForceUnlock(t.Context(), "x") })
				t.Log(took)
				require.LessOrEqual(t, took, 5*timeout)
				if silent < 3 {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
				}
				for _, n := range net.Nodes[:silent] {
					n.Thaw()
				}
			})
		})
	}
}
