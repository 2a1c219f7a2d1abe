package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock that changes hands while ForceUnlock is under way, or after it has returned.

// The command that takes the lock is held up on its way to one node. When it arrives
// there, ForceUnlock has returned, and another caller has the lock at just a quorum.
func TestALateForceUnlockLeavesALaterLeaseAlone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		f := net.client()
		slow := net.nodes[1]
		link := slow.links[0]
		slow.set(func(*testNode) { link.delay = 2 * ms })
		a, b, c := net.client(WithTTL(600*ms)), net.client(), net.client()
		first, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		asked := slow.executed("eval")
		go func() {
			for slow.executed("eval") == asked { // Inspect's question
				time.Sleep(100 * time.Microsecond)
			}
			slow.set(func(*testNode) { link.delay = 900 * ms })
		}()
		_, err = f.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		require.ErrorIs(t, first.Err(), ErrLost)
		time.Sleep(ms)
		net.nodes[2].down()
		time.Sleep(10 * ms)
		later, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		net.nodes[2].up()
		time.Sleep(time.Second)
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, later.Unlock(t.Context()))
	})
}

// The lock changes hands between the question for its holder and the attempt to take it.
func TestForceUnlockTakesTheLockFromItsNextHolderToo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b, f := net.client(), net.client(), net.client()
		first, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			link := n.links[2]
			n.set(func(*testNode) { link.delay = 50 * ms })
		}
		handedOn := make(chan *Lease, 1)
		time.AfterFunc(100*ms, func() { // Inspect was answered, and what follows is on its way
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
		require.ErrorIs(t, next.Err(), ErrLost)
	})
}
