package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Schedules in which a node that forgot a vote could still have helped a second
// holder. Each was a hole once.

// The guard must know the ttl of every Mutex, not only the client's.
func TestTheTTLOfAMutexCountsForTheGuard(t *testing.T) {
	derived := func(o *options) error { o.guard, o.noGuard = 0, false; return nil }
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.guarded(derived), net.guarded(derived)
		net.nodes[2].down()
		synctest.Wait()
		lease, err := a.Mutex("x", WithTTL(40*time.Second), WithoutRenewal()).Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, net.holders(lease))
		net.nodes[1].restart(nil)
		net.nodes[2].up()
		for lease.Valid() {
			_, err := b.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "with %v left of the first lease", lease.Remaining())
			time.Sleep(50 * ms)
		}
	})
}

// A goroutine may stand still between learning that a node votes and queuing
// there; meanwhile the server is restarted with older data, which contain the
// old run's record.
func TestAVoteIsBoundToTheConnectionOnWhichTheNodeWasAdmitted(t *testing.T) {
	for _, fencing := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, b := net.guarded(WithFencing(fencing)), net.guarded(WithFencing(fencing))
			before := net.nodes[1].snapshot()
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			paused := b.Mutex("x").newAttempt("b-owner")
			net.nodes[1].restart(before)
			time.Sleep(100 * ms)
			paused.send(0, true)
			synctest.Wait()
			require.Equal(t, NotSent, paused.report()[1].Outcome)
			paused.rollback()
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// A holds on X and Z, B asks for Y and Z. Y grants B and forgets it; A's renewal
// must not take Y for free and count it, since B's vote at Z is yet to come.
func TestARenewalDoesNotCountANodeThatForgotAVoteUnderWay(t *testing.T) {
	for _, fencing := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			y, z := net.nodes[1], net.nodes[2]
			a := net.guarded(WithFencing(fencing))
			linksOfA := len(z.links)
			b := net.guarded(WithFencing(fencing))
			require.NoError(t, y.redis.Set("redlock:x", "somebody who is gone soon"))
			y.redis.SetTTL("redlock:x", time.Second)
			begin := time.Now()
			at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
			lease, err := a.Mutex("x", WithoutRenewal()).Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, net.holders(lease))
			if fencing { // another name of the stripe was locked at Y: no write-back
				y.redis.HIncr("redlock::record:"+y.runID, stripeOf("redlock:x"), 1)
			}
			at(9500 * ms)
			z.freeze() // B's request arrives after A's key has ended there
			at(9550 * ms)
			got := make(chan *Lease, 1)
			go func() {
				second, _ := b.Mutex("x").TryLock(t.Context())
				got <- second
			}()
			at(9600 * ms)
			y.restart(nil)
			at(9620 * ms)
			z.set(func(n *testNode) {
				n.refusing = errRefused
				for _, l := range n.links[:linksOfA] {
					l.cut = true
					_ = l.near.Close()
				}
			})
			at(9800 * ms)
			require.Error(t, lease.Extend(t.Context()))
			at(10020 * ms)
			z.thaw()
			if second := <-got; second != nil {
				require.False(t, lease.Valid() && second.Valid(), "two holders")
			}
			z.up()
		})
	}
}
