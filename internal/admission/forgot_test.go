package admission_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// In these schedules a node that forgot a vote could once have helped a second holder.

// defaultGuarded makes a client without the option WithRestartGuard, and waits as Guarded does.
func defaultGuarded(net *testnet.Net) *redlock.Client {
	pools := make([]redlock.Pool, len(net.Nodes))
	for i, n := range net.Nodes {
		pools[i] = n
	}
	c, err := redlock.New(pools, redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
	require.NoError(net.T, err)
	net.Add(c)
	lease, err := net.Mutex(c, "first").Lock(net.T.Context())
	require.NoError(net.T, err)
	require.NoError(net.T, lease.Unlock(net.T.Context()))
	time.Sleep(time.Second) // the slower nodes are admitted too
	return c
}

// The guard must be as long as the ttl of any Mutex, not only as the client's.
func TestGuardIsAsLongAsTheTTLOfAMutex(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := defaultGuarded(net), defaultGuarded(net)
		net.Nodes[2].Down()
		synctest.Wait()
		lease, err := net.Mutex(a, "x", redlock.WithTTL(40*time.Second), redlock.WithoutRenewal()).Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, net.Holders(lease))
		net.Nodes[1].Restart(nil)
		net.Nodes[2].Up()
		for lease.Valid() {
			_, err := b.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "with %v left of the first lease", lease.Remaining())
			time.Sleep(200 * ms)
		}
	})
}

// newAttempt makes an attempt of a mutex that is not queued yet, as lock.Lock does for a
// caller that does not wait: its votes have their rights to vote.
func newAttempt(c *redlock.Client, m *redlock.Mutex, owner string) *lock.Attempt {
	a, e, l := new(lock.Attempt), testhook.Engine(c), testhook.Exclusive(m)
	terms := l.LeaseTerms()
	e.Cluster.Begin(&a.Ballot, quorum.Question{Op: "lock", Owner: owner, Start: e.Clock(), Timeout: terms.NodeTimeout,
		Rule: quorum.Acquire, Reader: l.Reader})
	for i := range a.Votes {
		v := &a.Votes[i]
		v.Right, v.Skip = v.Node.Right(terms.TTL)
	}
	l.PrepareAttempt(a)
	return a
}

// A goroutine may be suspended after it found that a node votes and before it queues the
// attempt there. Meanwhile the server restarts with older data, which contain the record of
// the old run.
func TestVoteIsBoundToTheConnectionOnWhichTheNodeWasAdmitted(t *testing.T) {
	for _, opts := range [][]redlock.ClientOption{nil, {redlock.WithoutFencing()}} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Guarded(opts...), net.Guarded(opts...)
			before := net.Nodes[1].Snapshot()
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			m := b.Mutex("x")
			paused := newAttempt(b, m, "b-owner")
			require.NoError(t, paused.Votes[1].Skip, "the node votes")
			net.Nodes[1].Restart(before)
			time.Sleep(100 * ms)
			paused.Send(0, true)
			synctest.Wait()
			require.Equal(t, quorum.NotSent, quorum.FailureOf(&paused.Ballot).Answers[1].Outcome)
			require.True(t, paused.Sent().Has(0) && !paused.Sent().Has(1))
			testhook.Lock(m).NewRollback("b-owner", "", false, nil).Send(paused.Sent(), false)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// Client A holds a lease at nodes X and Z, client B asks Y and Z. Y grants B's attempt and
// forgets it. A's renewal must not put its key at Y and count Y's vote, since B may still get
// Z's vote.
func TestRenewalDoesNotCountANodeThatForgotAVoteUnderWay(t *testing.T) {
	for _, opts := range [][]redlock.ClientOption{nil, {redlock.WithoutFencing()}} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			y, z := net.Nodes[1], net.Nodes[2]
			a := net.Guarded(opts...)
			linksOfA := len(z.Links)
			b := net.Guarded(opts...)
			require.NoError(t, y.Redis.Set("redlock:x", "another owner, not for long"))
			y.Redis.SetTTL("redlock:x", time.Second)
			begin := time.Now()
			at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
			lease, err := a.Mutex("x", redlock.WithoutRenewal()).Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, net.Holders(lease))
			if opts == nil { // as if another lock of the stripe had been granted at Y: no raise
				y.Redis.HIncr(y.Record(), protocol.StripeOf("redlock:x"), 1)
			}
			at(9500 * ms)
			z.Freeze() // B's request arrives after A's key has ended there
			at(9550 * ms)
			got := make(chan *redlock.Lease, 1)
			go func() {
				second, _ := b.Mutex("x").TryLock(t.Context())
				got <- second
			}()
			at(9600 * ms)
			y.Restart(nil)
			at(9620 * ms)
			z.Set(func(n *testnet.Node) {
				n.Refusing = testnet.ErrRefused
				for _, l := range n.Links[:linksOfA] {
					l.Cut = true
					_ = l.Near.Close()
				}
			})
			at(9800 * ms)
			require.Error(t, lease.Extend(t.Context()))
			at(10020 * ms)
			z.Thaw()
			if second := <-got; second != nil {
				require.False(t, lease.Valid() && second.Valid(), "two holders")
			}
			z.Up()
		})
	}
}

// All nodes are wiped while a client is connected and idle that uses a longer ttl than the
// other clients know.
func TestWipeOfAllNodesDoesNotEndALongerLeaseThatIsHeld(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		short := net.Guarded(redlock.WithTTL(2 * time.Second))
		long := net.Guarded(redlock.WithTTL(time.Minute))
		lease, err := long.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			n.Redis.FlushAll()
		}
		for lease.Valid() {
			_, err := short.Mutex("x").TryLock(t.Context())
			require.Error(t, err, "two holders, the first with %v left", lease.Remaining())
			time.Sleep(50 * ms)
		}
	})
}

// A client finds its ttl on record. Then all nodes are wiped, and another client that uses a
// shorter ttl admits them: the right to vote that the first client knows is void.
func TestRightToVoteEndsWithItsRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		short, long := net.Guarded(redlock.WithTTL(2*time.Second)), net.Guarded(redlock.WithTTL(time.Minute))
		for i, n := range net.Nodes {
			n.Redis.FlushAll()
			// As if another client had admitted the node, and these two had not looked since.
			name := "another"
			record := n.Key("record") + ":" + name
			n.Redis.HSet(record, "format", "1", "nodes", "3", "ttl", "2000")
			for f := range protocol.Stripes {
				n.Redis.HSet(record, fmt.Sprint(f), fmt.Sprint(protocol.FirstCount+int64(i)))
			}
			n.Redis.HSet(protocol.Key("quarantine", n.RunID), "name", name, "guard", "2000")
			require.NoError(t, n.Redis.Set("redlock::newest", record))
		}
		_, err := long.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, admission.ErrForgot.Error())
		lease, err := short.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		lease, err = long.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		onRecord := 0
		for _, n := range net.Nodes {
			if n.Redis.HGet(n.Record(), "ttl") == "60000" {
				onRecord++
			}
		}
		require.GreaterOrEqual(t, onRecord, 2, "first it put its ttl on record, at a quorum")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestNodeWithAnotherFormatIsUnfit(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set(protocol.FormatKey, "2"))
		}
		c := net.NewClient(redlock.WithRestartGuard(time.Millisecond))
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "at once")
		require.ErrorContains(t, err, "another version of this library")
		require.Equal(t, []string{protocol.FormatKey}, net.Nodes[0].Keys(), "the client wrote nothing")
	})
}

// The ttl is put on record first: the caller waits for one round trip, and does not spin.
func TestCallerWaitsUntilALongerTTLIsOnRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = 20 * ms })
		}
		m := c.Mutex("x", redlock.WithTTL(20*time.Second))
		reads := 0
		e := testhook.Engine(c)
		clock := e.Clock
		e.Clock = func() time.Duration { reads++; return clock() }
		lease, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.Less(t, reads, 200)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// If a majority of the nodes forgot, they vote again after at least twenty seconds. That
// holds for this loss alone: a node that forgets later, while the others remember, is in quarantine
// for one guard.
func TestLongGuardIsForTheLossOfAMajorityOnly(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(time.Second))
		m := c.Mutex("x")
		locked := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lease, err := m.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(ctx))
		}
		net.Nodes[0].Redis.FlushAll()
		net.Nodes[1].Redis.FlushAll()
		require.Greater(t, testnet.Elapsed(locked), admission.MajorityLossGuard-2*time.Second)
		time.Sleep(admission.MajorityLossGuard + 5*time.Second) // all are back

		net.Nodes[0].Redis.FlushAll()
		require.Less(t, testnet.Elapsed(locked), time.Second)
		time.Sleep(2500 * ms)
		require.NoError(t, c.Ping(t.Context()))
		net.Nodes[1].Down()
		require.Less(t, testnet.Elapsed(locked), time.Second, "the node that forgot votes again")
	})
}
