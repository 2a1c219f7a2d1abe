package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Hand-offs to attempts that were refused a moment before, and are parked at the nodes.

func TestHandOffToAParkedAttemptTakesOneRoundTrip(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, took, attempts := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {})
		require.Equal(t, 20*ms, took)
		require.Equal(t, 1, attempts)
		require.Equal(t, 5, net.Holders(lease))

		// The attempt was begun 80 ms ago, and its keys last for 500 ms: drift is 1 % and 2 ms.
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Wait.ExecutedValidity-80*ms, lease.Remaining())
		time.Sleep(20 * ms)
		synctest.Wait()
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Lease.Validity-20*ms, lease.Remaining(), "it was renewed at once")
		for _, n := range net.Nodes {
			require.Greater(t, n.Redis.TTL("redlock:x"), 9*time.Second)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
		net.RequireNoLines()
		net.RequireNothingParked()
	})
}

func TestHandOffToAParkedAttemptWithoutTokensTakesOneRoundTrip(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithoutFencing()), testnet.ListeningClient(t, net, redlock.WithoutFencing())
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait() // it has all nodes
		got := net.Begin(b.Mutex("x").Lock)
		time.Sleep(60 * ms)
		net.Nodes.Set(func(n *testnet.Node) { n.Delay, n.Log = 10*ms, nil })
		require.Equal(t, 20*ms, testnet.Elapsed(func() {
			go func() { require.NoError(t, held.Unlock(t.Context())) }()
			held = <-got
		}))
		require.Zero(t, held.Token())
		require.Zero(t, net.Nodes[0].Executed("claim")+net.Nodes[0].Executed("acquire"))
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestAttemptThatNeedsItsFullTTLIsNotParked(t *testing.T) {
	for name, opts := range map[string][]redlock.LockOption{
		"without renewal": {redlock.WithoutRenewal()},
		"with an end":     {redlock.WithMaxHold(time.Minute)},
		"a short ttl":     {redlock.WithTTL(protocol.ReservationTTL)},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(), testnet.ListeningClient(t, net)
			m := b.Mutex("x", opts...)
			lease, took, _ := testnet.HandOff(t, net, a.Mutex("x"), m, 60*ms, net.RequireNothingParked)
			require.Equal(t, 40*ms, took, name)
			require.Equal(t, testhook.Lock(m).Terms().Lease.Validity-20*ms, lease.Remaining(), name)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestNextAttemptTakesOverAParkedOneWhoseExecutionTooFewNodesReport(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, took, attempts := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			for _, n := range net.Nodes[:3] {
				n.Set(func(n *testnet.Node) {
					n.Lose = func(data []byte) bool { return strings.Contains(string(data), "$7\r\nmessage") }
				})
			}
		})
		require.Equal(t, 20*ms+firstQuorumWait+20*ms, took)
		require.Equal(t, 2, attempts)
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Lease.Validity-20*ms, lease.Remaining(), "it is an attempt like any other")
		require.Equal(t, 5, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLeavingWaiterRemovesItsParkedAttempts(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		net.Held(b.Mutex("x").Lock(ctx))
		net.RequireNothingParked()
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLeaseOfAParkedAttemptEndsInTimeIfItCannotBeRenewed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, _, _ := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			net.Nodes.Refuse("ERR not now", "renew")
		})
		end := lease.Remaining()
		require.Less(t, end, protocol.ReservationTTL)
		require.Equal(t, end, testnet.Elapsed(func() { <-lease.Done() }))
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.Greater(t, net.Nodes[0].Executed("renew"), 3, "it was tried again in time")
		require.Less(t, net.Nodes[0].Executed("renew"), 30)
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}

// Leases of parked attempts, while something else is under way. In each of these cases the first
// version with parked attempts let two callers hold the lock, or left keys.

// releaseAll delivers what links hold back, so that clients can be closed.
func releaseAll(net *testnet.Net) {
	for _, n := range net.Nodes {
		n.Set(func(n *testnet.Node) {
			for _, l := range n.Links {
				l.Held = false
			}
		})
	}
}

// The second node is still to undo an attempt, when the other nodes execute it, since it is parked
// there, and it becomes a lease. Until the undo, the second node's answers to renewals do not count.
func TestRenewalDoesNotCountAtANodeThatIsStillToUndoTheAttempt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		defer releaseAll(net)
		second, third := net.Nodes[1], net.Nodes[2]
		second.Redis.Del("redlock:x")
		second.Refuse("BUSY Redis is busy running a script", "release")
		got := net.Begin(b.Mutex("x").Lock)
		time.Sleep(60 * ms)
		require.Equal(t, 1, testhook.Engine(b).Cluster.Nodes()[1].Undos())
		third.Set(func(n *testnet.Node) { n.Links[1].Held = true }) // b's; wake-ups come over another
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		time.Sleep(20 * ms)
		require.Less(t, lease.Remaining(), protocol.ReservationTTL, "a majority did not renew it")

		second.Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(time.Second)
		other := net.Must(net.Client().Mutex("x").TryLock(t.Context()))
		require.False(t, lease.Valid())
		require.True(t, other.Valid())
	})
}

// One node executes a parked attempt before ForceUnlock seizes it; another would execute the
// attempt after ForceUnlock gave the node back.
func TestForceUnlockOutlastsAttemptsThatWereParkedBefore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		opts := []redlock.ClientOption{redlock.WithoutFencing(), redlock.WithNodeTimeout(20 * ms)}
		a, b := net.Client(opts...), testnet.ListeningClient(t, net, opts...)
		c, d := net.Client(opts...), net.Client(opts...)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		defer releaseAll(net)
		net.Nodes[1:].Set(func(n *testnet.Node) { n.Links[0].Delay = 300 * ms }) // a's
		net.Nodes[2].Set(func(n *testnet.Node) { n.Links[1].Held = true })       // b's
		got := make(chan *redlock.Lease, 1)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		go func() {
			l, _ := b.Mutex("x").Lock(ctx)
			got <- l
		}()
		time.Sleep(30 * ms)
		net.Nodes[:2].Set(func(n *testnet.Node) { n.Links[1].Delay = 40 * ms }) // its renewal is late
		go func() { _ = held.Unlock(t.Context()) }()                            // reaches the first node only
		time.Sleep(5 * ms)
		net.Status(c.ForceUnlock(t.Context(), "x"))
		other, err := d.Mutex("x").TryLock(t.Context()) // may be refused: b is the first in the queue
		select {
		case l := <-got:
			require.False(t, err == nil && l != nil && l.Valid() && other.Valid(), "two holders")
		case <-time.After(20 * ms):
		}
		stop()
	})
}

// A Do ends later than the keys of the parked attempt that became its lease. A renewal is on its
// way when the client is closed, and prolongs the keys.
func TestCloseAwaitsADoWhoseKeysWereProlonged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		net.Delay(5 * ms)
		in, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				close(in)
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}()
		time.Sleep(60 * ms)
		go func() { _ = held.Unlock(t.Context()) }()
		<-in
		time.Sleep(ms)
		require.NoError(t, b.Close())
		<-done
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}

// What the scripts do with parked attempts, at one node; and what clients do with those before.

// handedOff is what the release script returns when the lock goes to another ticket.
const handedOff = 3

// queueParked has "holder" hold the lock at a node, and three waiters queue there with parked
// attempts. It returns the node, and a function that runs a script there by its hash.
func queueParked(t *testing.T, net *testnet.Net, ttl time.Duration, least int64) (n *testnet.Node, eval func(s *protocol.Script, args ...any) any) {
	n, eval = testnet.Scripted(t, net)
	require.NoError(t, n.Redis.Set("redlock:x", "holder"))
	n.Redis.SetTTL("redlock:x", ttl)
	for _, ticket := range []string{testnet.FirstTicket, testnet.SecondTicket, testnet.ThirdTicket} {
		reply := eval(protocol.Acquire, 2, "redlock:x", "record", "of "+ticket, 10_000, "7", least, ticket, "label", "", parkFor.Milliseconds())
		held, err := redis.Values(reply, nil)
		require.NoError(t, err)
		require.Len(t, held, 4)
	}
	return n, eval
}

// holderOf returns the value of the lock's key.
func holderOf(n *testnet.Node) string {
	value, _ := n.Redis.Get("redlock:x")
	return value
}

func TestReleaseOfAnAttemptExecutesNoParkedAttempt(t *testing.T) {
	for name, args := range map[string][]any{
		"of a waiter that stays":         {"holder", testnet.ThirdTicket, "label"},
		"of a caller that found it free": {"holder", ""},
		"of an owner that holds nothing": {"another"},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			eval(protocol.Release, testnet.Keys("redlock:x", args...)...)
			require.False(t, strings.HasPrefix(holderOf(n), "of "), name)
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket), name)
		})
	}
}

// An attempt that is undone is not executed later, also where its waiter keeps its position.
func TestRollbackRemovesTheParkedAttempt(t *testing.T) {
	for _, more := range [][]any{nil, {"label"}} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			eval(protocol.Release, testnet.Keys("redlock:x", append([]any{"of " + testnet.FirstTicket, testnet.FirstTicket}, more...)...)...)
			require.False(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket))
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.SecondTicket))
		})
	}
}

func TestParkedAttemptIsNotCountedInAnIncompleteRecord(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := queueParked(t, net, time.Minute, protocol.FirstCount)
		require.EqualValues(t, handedOff, eval(protocol.Release, testnet.Keys("redlock:x", "holder")...))
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderOf(n))
		require.False(t, n.Redis.Exists("record"), "a count that begins at 0 must not make a record")
	})
}

func TestParkedAttemptExpiresSoon(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := queueParked(t, net, time.Minute, 1)
		time.Sleep(parkFor)
		eval(protocol.Release, testnet.Keys("redlock:x", "holder")...)
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, holderOf(n))
	})
}

// A parked attempt must not outlast an attempt that takes its place: the client would not notice
// its execution.
func TestNextAttemptRemovesTheParkedOne(t *testing.T) {
	for name, c := range map[string]struct {
		free    bool // the attempt is granted
		parkFor int
	}{"that is not parked": {false, 0}, "that is granted": {true, 0}} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := queueParked(t, net, time.Minute, 1)
			require.True(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket))
			if c.free {
				n.Redis.Del("redlock:x")
			}
			eval(protocol.Acquire, 2, "redlock:x", "record", "again", 10_000, "7", 1, testnet.FirstTicket, "label", "of "+testnet.FirstTicket, c.parkFor)
			require.False(t, n.Redis.Exists("redlock::parked:"+testnet.FirstTicket), name)
		})
	}
}

func TestNextAttemptRemovesTheParkedOneFromANodeThatIsNotAsked(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Guarded()
		w, leave := newWaiter(t, net, redlock.WithRestartGuard(time.Millisecond))
		defer leave()
		require.True(t, net.Nodes[2].Redis.Exists(w.parkedKey()))
		testnet.LoseRecord(net.Nodes[2], w.client)
		require.False(t, w.engine.Cluster.Nodes()[2].Current().Votes)
		w.try(t)
		synctest.Wait()
		require.True(t, net.Nodes[1].Redis.Exists(w.parkedKey()))
		require.False(t, net.Nodes[2].Redis.Exists(w.parkedKey()))
		require.False(t, net.Nodes[2].Redis.Exists("redlock::queue:redlock:x"))
	})
}

// A node that lacks the script does not execute an attempt, so the attempt does not replace the
// one before there: the client undoes that one.
func TestNextAttemptUndoesTheParkedOneAtANodeThatLacksTheScript(t *testing.T) {
	for _, executed := range []bool{false, true} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			w, leave := newWaiter(t, net)
			defer leave()
			n := net.Nodes[2]
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, args []string) string {
					if n.Label(cmd, args) == "acquire" && cmd == "EVALSHA" {
						return "NOSCRIPT No matching script. Please use EVAL."
					}
					return ""
				}
			})
			if executed {
				conn := testnet.Dial(t, n)
				_, err := conn.Do("EVALSHA", append([]any{protocol.Release.SHA()}, testnet.Keys("redlock:x", holderOf(n))...)...)
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				require.Equal(t, w.attempt.Owner, holderOf(n))
			}
			w.try(t)
			synctest.Wait()
			require.False(t, n.Redis.Exists(w.parkedKey()))
			require.Equal(t, !executed, n.Redis.Exists("redlock:x"))
			require.True(t, net.Nodes[1].Redis.Exists(w.parkedKey()))
			require.Zero(t, w.engine.Cluster.Nodes()[2].Undos())
		})
	}
}

// When a waiter counts a parked attempt as executed.

func TestExecutionCountsOnlyOverConnectionsFromBeforeTheAttempt(t *testing.T) {
	for name, change := range map[string]func(net *testnet.Net, w *waiter, serial *uint64, owner *string){
		"":                         func(*testnet.Net, *waiter, *uint64, *string) {},
		"another subscription":     func(_ *testnet.Net, _ *waiter, serial *uint64, _ *string) { *serial++ },
		"no subscription any more": func(_ *testnet.Net, _ *waiter, serial *uint64, _ *string) { *serial = 0 },
		"another connection": func(_ *testnet.Net, w *waiter, _ *uint64, _ *string) {
			v := &w.attempt.Votes[1]
			v.Right = &admission.VoteRight{Votes: true, Record: v.Right.Record}
		},
		"another record": func(_ *testnet.Net, w *waiter, _ *uint64, _ *string) {
			v := &w.attempt.Votes[1]
			right := *v.Right
			right.Record = "another"
			v.Right = &right
		},
		"the node may not vote": func(net *testnet.Net, w *waiter, _ *uint64, _ *string) {
			testnet.LoseRecord(net.Nodes[1], w.client)
			require.False(net.T, w.engine.Cluster.Nodes()[1].Current().Votes)
		},
		"the node is away": func(net *testnet.Net, w *waiter, _ *uint64, _ *string) {
			net.Nodes[1].Down()
			synctest.Wait()
			require.Nil(net.T, w.engine.Cluster.Nodes()[1].Current())
		},
		"of another attempt": func(_ *testnet.Net, _ *waiter, _ *uint64, owner *string) { *owner = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Guarded()
				w, leave := newWaiter(t, net, redlock.WithRestartGuard(time.Millisecond))
				defer leave()
				serial, owner := w.queue.Subscriptions()[1], w.attempt.Owner
				w.execute(0)
				require.False(t, w.isGranted(), "one node is too few")
				change(net, w, &serial, &owner)
				w.Executed(w.engine.Cluster.Nodes()[1], serial, owner, "7")
				require.Equal(t, name == "", w.isGranted())

				// A quorum is ready for the next attempt, or one node only.
				wait := time.Duration(0)
				if owner != w.attempt.Owner {
					wait = firstQuorumWait
				}
				require.Equal(t, wait, testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(t.Context(), farBack)) }))
			})
		})
	}
}

func TestExecutionThatWasRolledBackDoesNotCount(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		w.execute(0)
		w.execute(1)
		require.True(t, w.isGranted())
		w.RollingBack(w.attempt.Owner, 1<<1)
		require.False(t, w.isGranted())
		w.execute(1)
		require.False(t, w.isGranted(), "nor does a message that comes after the rollback")
		w.Executed(w.engine.Cluster.Nodes()[1], 0, w.attempt.Owner, "7")
		require.False(t, w.isGranted(), "nor if the subscription has ended meanwhile")
		w.execute(2)
		require.True(t, w.isGranted())
	})
}

func TestExecutedAttemptWithTooLittleValidityIsNotGranted(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		for i := range net.Nodes {
			w.execute(i)
		}
		// took has the waiter's last attempt take so long. The nodes are ready: the waiter
		// does not wait.
		took := func(d time.Duration) {
			s := farBack
			s.Took = d
			require.Zero(t, testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(t.Context(), s)) }))
		}
		time.Sleep(w.lock.Terms().Wait.ExecutedValidity - protocol.ReservationTTL/4)
		require.True(t, w.isGranted())
		took(100 * ms)
		require.False(t, w.isGranted(), "the renewal would take too long")
		took(0)
		require.True(t, w.isGranted())
		time.Sleep(time.Nanosecond)
		require.False(t, w.isGranted())
	})
}
