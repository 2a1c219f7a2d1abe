package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
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
			paused := b.Mutex("x").newAttempt("b-owner", nil)
			net.nodes[1].restart(before)
			time.Sleep(100 * ms)
			paused.Send(0, true)
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
				y.redis.HIncr(y.record(), protocol.StripeOf("redlock:x"), 1)
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

// All nodes are wiped while a client that uses a longer ttl than the others know
// is connected, and quiet.
func TestAWipeOfAllNodesIsNoticedByThoseWhoHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		short := net.guarded(WithTTL(2 * time.Second))
		long := net.guarded(WithTTL(time.Minute))
		lease, err := long.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		for _, n := range net.nodes {
			n.redis.FlushAll()
		}
		for lease.Valid() {
			_, err := short.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "two holders, the first with %v left", lease.Remaining())
			time.Sleep(50 * ms)
		}
	})
}

// A client learnt that its ttl is on record; then all is wiped and admitted anew by
// somebody with a shorter one. What it learnt is no longer so.
func TestAStandingEndsWithTheRecordThatItCameFrom(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		short, long := net.guarded(WithTTL(2*time.Second)), net.guarded(WithTTL(time.Minute))
		for i, n := range net.nodes {
			n.redis.FlushAll()
			// As if somebody had admitted them anew, without a word to these two.
			name := "another"
			record := n.key("record") + ":" + name
			n.redis.HSet(record, "format", "1", "nodes", "3", "ttl", "2000")
			for f := range protocol.Stripes {
				n.redis.HSet(record, fmt.Sprint(f), fmt.Sprint(protocol.FirstCount+i))
			}
			n.redis.HSet(protocol.Key("bar", n.runID), "name", name, "guard", "2000")
			require.NoError(t, n.redis.Set("redlock::newest", record))
		}
		_, err := long.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, admission.ErrForgot.Error())
		lease, err := short.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		lease, err = long.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		onRecord := 0
		for _, n := range net.nodes {
			if n.redis.HGet(n.record(), "ttl") == "60000" {
				onRecord++
			}
		}
		require.GreaterOrEqual(t, onRecord, 2, "first it put its ttl on record, at a quorum")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestPingFailsInQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.newClient(WithRestartGuard(time.Millisecond))
		err := c.Ping(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "it does not vote for another 10s")
		time.Sleep(12 * time.Second)
		require.NoError(t, c.Ping(t.Context()))
	})
}

func TestAnotherFormatIsAMisfit(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set(protocol.FormatKey, "2"))
		}
		c := net.newClient(WithRestartGuard(time.Millisecond))
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum, "at once")
		require.ErrorContains(t, err, "another version of this library")
		require.Equal(t, []string{protocol.FormatKey}, net.nodes[0].keys(), "nothing was touched")
	})
}

// The ttl is put on record first; that takes a round trip, no spinning.
func TestALongerTTLIsAwaited(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * ms })
		}
		m := c.Mutex("x", WithTTL(20*time.Second))
		reads := 0
		clock := m.opts.clock
		m.opts.clock = func() time.Duration { reads++; return clock() }
		lease, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.Less(t, reads, 200)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Where a majority forgot, nodes vote again after twenty seconds at least. That is
// for this loss alone: a node that forgets later, while the others remember, is barred
// for one guard, as ever.
func TestTheLongGuardIsForTheLossOfAMajorityOnly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(time.Second))
		m := c.Mutex("x")
		locked := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lease, err := m.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(ctx))
		}
		net.nodes[0].redis.FlushAll()
		net.nodes[1].redis.FlushAll()
		require.Greater(t, elapsed(locked), admission.MajorityLossGuard-2*time.Second)
		time.Sleep(admission.MajorityLossGuard + 5*time.Second) // all are back

		net.nodes[0].redis.FlushAll()
		require.Less(t, elapsed(locked), time.Second)
		time.Sleep(2500 * ms)
		require.NoError(t, c.Ping(t.Context()))
		net.nodes[1].down()
		require.Less(t, elapsed(locked), time.Second, "the node that forgot votes again")
	})
}
