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
	lease := net.Must(net.Mutex(c, "first").Lock(net.T.Context()))
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
		lease := net.Must(net.Mutex(a, "x", redlock.WithTTL(40*time.Second), redlock.WithoutRenewal()).Lock(t.Context()))
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
			lease := net.Must(a.Mutex("x").Lock(t.Context()))
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
			lease := net.Must(a.Mutex("x", redlock.WithoutRenewal()).Lock(t.Context()))
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
		lease := net.Must(long.Mutex("x").Lock(t.Context()))
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
	t.Run("with tokens", func(t *testing.T) { requireRightEnds(t) })
	t.Run("without tokens", func(t *testing.T) { requireRightEnds(t, redlock.WithoutFencing()) })
}

func requireRightEnds(t *testing.T, opts ...redlock.ClientOption) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		short := net.Guarded(append(opts, redlock.WithTTL(2*time.Second))...)
		long := net.Guarded(append(opts, redlock.WithTTL(time.Minute))...)
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
			n.Redis.HSet(protocol.MembersKey, "id", "another", "masters", "test-0 test-1 test-2", "self", n.String())
		}
		_, err := net.Mutex(long, "x").TryLock(t.Context())
		require.ErrorContains(t, err, admission.ErrForgot.Error())
		lease := net.Must(net.Mutex(short, "x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		lease = net.Must(net.Mutex(long, "x").Lock(t.Context()))
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
			require.NoError(t, n.Redis.Set(protocol.FormatKey, "1"))
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
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 20 * ms })
		m := c.Mutex("x", redlock.WithTTL(20*time.Second))
		reads := 0
		e := testhook.Engine(c)
		clock := e.Clock
		e.Clock = func() time.Duration { reads++; return clock() }
		lease := net.Must(m.TryLock(t.Context()))
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
			lease := net.Must(m.Lock(ctx))
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

// A quarantine's name is also that of the record after it. Once a client has admitted the node, the quarantine is used: a
// node that loses the record alone gets a new one.

func TestNodeWithoutItsRecordWaitsForANewQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(5 * time.Second))
		n := net.Nodes[0]
		first := n.Redis.HGet(protocol.Key("quarantine", n.RunID), "name")
		quarantine, record := testnet.LoseRecord(n, c)
		require.NotEqual(t, first, n.Redis.HGet(quarantine, "name"), "the new quarantine has a name of its own")
		require.Empty(t, n.Redis.HGet(quarantine, "used"))
		require.ErrorContains(t, members(c)[0].Current().Why(), "it does not vote for another 5s")
		time.Sleep(5*time.Second - ms)
		require.False(t, members(c)[0].Current().Votes)
		time.Sleep(time.Second)
		require.True(t, members(c)[0].Current().Votes)
		require.NotEqual(t, record, n.Record())
		require.Equal(t, "1", n.Redis.HGet(quarantine, "used"))
		require.Zero(t, n.Redis.TTL(quarantine), "the key of a quarantine that was used does not end")
	})
}

// The client that finds the record gone may not know the longest ttl; the quarantine has it.
func TestNodeWithoutItsRecordKeepsTheLongerGuardOfItsQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		long := net.Guarded(redlock.WithTTL(time.Minute))
		require.NoError(t, long.Close())
		short := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
		require.NoError(t, short.Ping(t.Context()))
		n := net.Nodes[0]
		n.Redis.Del(n.Record())
		reply, err := protocol.ReadProbe(n.Eval(protocol.ProbeCall{Run: protocol.Run(n.RunID), Nodes: 3, Longest: 2 * time.Second, Guard: 2 * time.Second, Name: "another name"}.Call().Eval()))
		require.NoError(t, err)
		require.Equal(t, time.Minute, reply.Barred.Guard)
	})
}

// A client collects counters, and is slow to write them: meanwhile another client admits the
// node after the same quarantine, and the node loses the record after that.
func TestSlowAdmissionAfterAUsedQuarantineChangesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Guarded(redlock.WithTTL(2 * time.Second))
		node := net.Nodes[0]
		name := node.Redis.HGet(node.Key("quarantine"), "name")
		record := node.Key("record") + ":" + name
		require.Equal(t, record, node.Record())
		call := protocol.AdmitCall{Run: protocol.Run(node.RunID), Quarantine: name, Nodes: 3, Longest: 2 * time.Second}
		call.Counts[0] = 5
		admit := func() bool {
			admitted, err := protocol.ReadAdmit(node.Eval(call.Eval()))
			require.NoError(t, err)
			return admitted
		}
		require.True(t, admit(), "a client that comes later finds the record")
		require.NotEqual(t, "5", node.Redis.HGet(record, "0"), "and leaves it as it is")
		node.Redis.Del(record)
		require.False(t, admit())
		require.False(t, node.Redis.Exists(record))
	})
}

// A client may find its quarantine over by a clock that runs fast, or by an answer of another run: the server decides.
func TestServerAdmitsItselfOnlyAfterTheQuarantineThatTheClientNames(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := net.Nodes[0]
		probe := protocol.ProbeCall{Run: protocol.Run(n.RunID), Nodes: 3, Longest: 2 * time.Second, Guard: 5 * time.Second, Name: "this"}
		_, err := n.Eval(probe.Call().Eval())
		require.NoError(t, err)
		call := protocol.AdmitCall{Run: probe.Run, Nodes: 3, Longest: 2 * time.Second}
		requireAdmitted := func(want bool, quarantine, when string) {
			t.Helper()
			before := n.Redis.Dump()
			call.Quarantine = quarantine
			admitted, err := protocol.ReadAdmit(n.Eval(call.Eval()))
			require.NoError(t, err)
			require.Equal(t, want, admitted, when)
			require.Equal(t, want, n.Redis.Exists(call.Run.Record(quarantine)), when)
			if !want {
				require.Equal(t, before, n.Redis.Dump(), when)
			}
		}
		requireAdmitted(false, "this", "it has just begun")
		time.Sleep(5*time.Second - ms)
		requireAdmitted(false, "this", "it is nearly over")
		time.Sleep(ms)
		call.Seal, call.List.ID = "client's seal", "list"
		requireAdmitted(false, "this", "it is not sealed")
		require.NoError(t, n.Redis.Set(protocol.SealKey, "another's seal"))
		requireAdmitted(false, "this", "another client has sealed it")
		require.NoError(t, n.Redis.Set(protocol.SealKey, call.Seal))
		requireAdmitted(false, "another", "it is another one")
		n.Redis.HSet(protocol.MembersKey, "id", "another list")
		requireAdmitted(false, "this", "it remembers another list")
		n.Redis.Del(protocol.MembersKey)
		requireAdmitted(true, "this", "it is over")
	})
}

// Two clients come to the end of one quarantine at the same instant: one record, one mark.
func TestClientsThatAdmitANodeTogetherMakeOneRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		all := []*redlock.Client{net.Guarded(redlock.WithTTL(2 * time.Second)), net.Guarded(redlock.WithTTL(2 * time.Second)), net.Guarded(redlock.WithTTL(2 * time.Second))}
		net.Nodes[0].Restart(nil)
		time.Sleep(4 * time.Second)
		require.Equal(t, "1", net.Nodes[0].Redis.HGet(protocol.Key("quarantine", net.Nodes[0].RunID), "used"))
		for _, c := range all {
			require.True(t, members(c)[0].Current().Votes)
			require.Equal(t, net.Nodes[0].Record(), members(c)[0].Current().Record)
		}
	})
}

// Older versions made records without the mark: the client sets it when it looks next.
func TestQuarantineOfAWholeRecordGetsItsMark(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		quarantine := protocol.Key("quarantine", net.Nodes[0].RunID)
		net.Nodes[0].Redis.HDel(quarantine, "used")
		time.Sleep(admission.ProbeInterval)
		require.Equal(t, "1", net.Nodes[0].Redis.HGet(quarantine, "used"))
		require.True(t, members(c)[0].Current().Votes, "it went on voting")
	})
}

// An attempt finds its counter far below any count of a record, and deletes the key in which
// it counted.
func TestNodeWhoseRecordAnAttemptDeletedWaitsForANewQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(5 * time.Second))
		held := net.Must(c.Mutex("x").Lock(t.Context()))
		waiter := c.Mutex("x")
		got := make(chan error, 1)
		go func() {
			lease, err := waiter.Lock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			got <- err
		}()
		time.Sleep(500 * ms) // it is queued, so its attempts are scripts
		node, record := net.Nodes[0], net.Nodes[0].Record()
		node.Redis.HDel(record, protocol.StripeOf(testhook.Lock(waiter).Keys()[0]))
		node.Redis.Del("redlock:x")
		for range 40 { // its attempts come at random
			time.Sleep(100 * ms)
			if right := members(c)[0].Current(); right != nil && !right.Votes {
				break
			}
		}
		require.False(t, members(c)[0].Current().Votes)
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, members(c)[0].Current().Why(), &quarantine)
		require.False(t, node.Redis.Exists(record))
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-got)
		time.Sleep(6 * time.Second)
		require.True(t, members(c)[0].Current().Votes)
	})
}
