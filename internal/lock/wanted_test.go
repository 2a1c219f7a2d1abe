package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Holders that are told when others want the lock.

// isWanted reports whether the holder has been told, once nothing is under way.
func isWanted(l *redlock.Lease) bool {
	synctest.Wait()
	select {
	case <-l.Wanted():
		return true
	default:
		return false
	}
}

// waitFor has a caller wait for a lock until the test ends, or until it is told to give up.
func waitFor(t *testing.T, m *redlock.Mutex) (giveUp func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l, err := m.Lock(ctx); err == nil {
			assert.NoError(t, l.Unlock(ctx))
		}
	}()
	stop := func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// The holder knows within a trip of the refusal. That is the instant at which the waiter learns that it was refused, since
// both messages are under way for as long.
func TestHolderLearnsOfAWaiterWithinATrip(t *testing.T) {
	const trip = 10 * ms
	holders := map[string]func(c *redlock.Client) *redlock.Mutex{
		"mutex":   func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x", redlock.WithWanted()) },
		"several": func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"w", "x"}, redlock.WithWanted()) },
	}
	for name, holder := range holders {
		for _, kind := range []testnet.Kind{testnet.Alone, testnet.Shared, testnet.Several} {
			t.Run(name+", wanted "+string(kind), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					net.Kind = kind
					a, b := net.Client(), testnet.ListeningClient(t, net)
					lease := net.Must(holder(a).Lock(t.Context()))
					require.False(t, isWanted(lease))
					net.Delay(trip)
					giveUp := waitFor(t, net.Mutex(b, "x"))
					require.LessOrEqual(t, testnet.Elapsed(func() { <-lease.Wanted() }), 2*trip)
					require.NoError(t, lease.Err(), "nothing is forced")
					giveUp()
					require.NoError(t, lease.Unlock(t.Context()))
				})
			})
		}
	}
}

// A holder that does not want to be told costs nobody anything, and one that does only once somebody waits.
func TestHolderIsToldOnlyIfItWantsToBe(t *testing.T) {
	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithWanted()}} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(), testnet.ListeningClient(t, net)
			lease := net.Must(a.Mutex("x", opts...).Lock(t.Context()))
			net.Held(b.Mutex("x").TryLock(t.Context()))
			time.Sleep(8 * time.Second) // renewals
			require.False(t, lease.Wanted() != nil && isWanted(lease), "a TryLock leaves nothing")
			synctest.Wait()
			require.Zero(t, net.Nodes[0].Executed("publish"))
			var sent []string
			net.Nodes[0].OnMessage(func(message string) { sent = append(sent, message) })
			if opts == nil {
				require.Nil(t, lease.Wanted())
				net.Nodes[0].Set(func(n *testnet.Node) { n.Log = nil })
				require.NoError(t, lease.Extend(t.Context()))
				synctest.Wait()
				require.Equal(t, []string{"renew", "getrange", "pexpire"}, net.Nodes[0].Log)
			}
			giveUp := waitFor(t, b.Mutex("x"))
			synctest.Wait()
			require.Len(t, sent, len(opts), "a waiter that joins the queue: %v", sent)
			giveUp()
			require.NoError(t, lease.Unlock(t.Context()))
			net.RequireNoTraces()
		})
	}
}

// Others stood in the queue before the holder got the lock: by a parked attempt that was executed, or by a reservation.
func TestHolderLearnsOfWaitersBehindIt(t *testing.T) {
	for name, opts := range map[string][]redlock.LockOption{
		"executed": {redlock.WithWanted()},
		"reserved": {redlock.WithWanted(), redlock.WithoutRenewal()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []testnet.Kind{testnet.Alone, testnet.Several} {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					net.Kind = kind
					a, b, c := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
					first := net.Must(net.Mutex(a, "x").Lock(t.Context()))
					next := net.Begin(net.Mutex(b, "x", opts...).Lock)
					time.Sleep(20 * ms)
					giveUp := waitFor(t, net.Mutex(c, "x"))
					time.Sleep(20 * ms)
					require.NoError(t, first.Unlock(t.Context()))
					lease := <-next
					require.True(t, isWanted(lease))
					giveUp()
					require.NoError(t, lease.Unlock(t.Context()))
					net.RequireNoKeys()
				})
			}
		})
	}
}

// The holder waited before, and its ticket stands in the queue of a node that had another key of the lock, until a renewal
// removes it. That node does not answer when the lease is granted.
func TestHolderIsNotToldOfItself(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, other := net.Client(), testnet.ListeningClient(t, net), net.Nodes[2]
		require.NoError(t, other.Redis.Set("redlock:x", "them"))
		first := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait() // all nodes have answered
		next := net.Begin(net.Mutex(b, "x", redlock.WithWanted()).Lock)
		time.Sleep(20 * ms)
		other.Freeze()
		require.NoError(t, first.Unlock(t.Context()))
		lease := <-next
		require.True(t, other.Redis.Exists(protocol.Key("queue", "redlock:x")))
		other.Redis.Del("redlock:x")
		other.Thaw()
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(lease))
		time.Sleep(15 * time.Second)
		require.False(t, isWanted(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoTraces()
	})
}

// A renewal that learns that the holder was asked leaves the queue nevertheless.
func TestHolderThatWasAskedLeavesTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, other := net.Client(), testnet.ListeningClient(t, net), net.Nodes[2]
		require.NoError(t, other.Redis.Set("redlock:x", "them"))
		first := net.Must(a.Mutex("x").Lock(t.Context()))
		next := net.Begin(b.Mutex("x", redlock.WithWanted()).Lock)
		time.Sleep(20 * ms)
		require.NoError(t, first.Unlock(t.Context()))
		lease := <-next
		synctest.Wait()
		require.True(t, other.Redis.Exists(protocol.Key("queue", "redlock:x")))
		other.Redis.Del("redlock:x")
		require.NoError(t, other.Redis.Set(protocol.AskedKey("redlock:x"), lease.Owner()))
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		require.False(t, other.Redis.Exists(protocol.Key("queue", "redlock:x")))
		require.True(t, isWanted(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// deafen keeps a node's messages from all clients that come.
func deafen(net *testnet.Net) {
	net.Nodes.Refuse("NOPERM this user has no permissions to access one of the channels used as arguments", "SUBSCRIBE")
}

func TestHolderThatGetsNoMessagesLearnsByItsRenewal(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		b := testnet.ListeningClient(t, net)
		deafen(net)
		for _, want := range map[string]func(){
			"a waiter": func() { waitFor(t, b.Mutex("x")) },
			"an ask":   func() { require.NoError(t, b.Ask(t.Context(), "x")) },
		} {
			lease := net.Must(net.Mutex(net.Client(), "x", redlock.WithWanted()).Lock(t.Context()))
			want()
			require.Less(t, testnet.Elapsed(func() { <-lease.Wanted() }), 4*time.Second, "a third of the ttl, at most")
			require.NoError(t, lease.Unlock(t.Context()))
		}
		lease := net.Must(net.Mutex(net.Client(), "x", redlock.WithWanted(), redlock.WithoutRenewal()).Lock(t.Context()))
		require.NoError(t, b.Ask(t.Context(), "x"))
		require.False(t, isWanted(lease))
		require.NoError(t, lease.Extend(t.Context()))
		require.True(t, isWanted(lease))
		if net.Kind != testnet.Shared { // other readers are to read it
			requireNobodyAsked(t, net)
		}
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Where a holder is not renewed, and did not get the message, the first waiter repeats it when it polls.
func TestFirstWaiterRepeatsTheMessage(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := testnet.ListeningClient(t, net)
		deafen(net)
		opts := []redlock.LockOption{redlock.WithWanted(), redlock.WithoutRenewal(), redlock.WithTTL(2 * time.Minute)}
		lease := net.Must(net.Client().Mutex("x", opts...).Lock(t.Context()))
		waitFor(t, b.Mutex("x"))
		time.Sleep(10 * time.Second)
		require.False(t, isWanted(lease))
		net.Nodes.Set(func(n *testnet.Node) { n.Override = nil })
		require.Less(t, testnet.Elapsed(func() { <-lease.Wanted() }), 35*time.Second, "the client subscribes again after half a minute at most")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Readers wait only behind a writer, and a share is told of that writer alone.
func TestReadersLearnOfWritersByTheirRenewals(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithWanted()), testnet.ListeningClient(t, net)
		share := net.Must(a.RWMutex("x").RLock(t.Context()))
		writer := net.Must(a.Mutex("y").Lock(t.Context()))
		require.NoError(t, writer.Downgrade(t.Context()))
		other := net.Must(b.RWMutex("x").RLock(t.Context()))
		time.Sleep(8 * time.Second)
		require.False(t, isWanted(share))
		require.False(t, isWanted(writer))
		waitFor(t, b.Mutex("x"))
		waitFor(t, b.Mutex("y"))
		require.Less(t, testnet.Elapsed(func() { <-share.Wanted(); <-writer.Wanted() }), 4*time.Second)
		require.Nil(t, other.Wanted())
		for _, l := range []*redlock.Lease{share, writer, other} {
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

// The message of a node comes before the votes that make a lease of the attempt.
func TestHolderIsToldBeforeItKnowsThatItHolds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		tape := new(testnet.Tape)
		a, b := testnet.ListeningClient(t, net, redlock.WithTrace(tape.Trace())), net.Client()
		net.Nodes.Set(func(n *testnet.Node) { n.Links[0].Delay = 50 * ms }) // a's calls, and not its messages
		time.AfterFunc(60*ms, func() { assert.NoError(t, b.Ask(t.Context(), "x")) })
		lease := net.Must(a.Mutex("x", redlock.WithWanted()).TryLock(t.Context()))
		require.True(t, isWanted(lease))
		events := tape.OfLeases("wanted")
		require.Len(t, events, 1)
		require.Equal(t, lease.Owner(), events[0].Owner)
		require.Equal(t, lease.Token(), events[0].Token)
		require.NoError(t, b.Ask(t.Context(), "x"))
		require.Len(t, tape.OfLeases("wanted"), 1, "once")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The mark in the owner changes nothing else.
func TestOwnerThatIsToBeToldIsReadAsAnyOther(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithOwnerLabel("a!b@c"), redlock.WithWanted(), redlock.WithReentry()), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.Equal(t, "a!b@c", lease.Label())
		held := net.Held(b.Mutex("x").TryLock(t.Context()))
		require.Equal(t, lease.Owner(), held.Holder)
		require.Equal(t, "a!b@c", held.Label)
		s := net.Status(b.Inspect(t.Context(), "x"))
		require.Equal(t, "a!b@c", s.Label)
		require.True(t, s.Notifiable)

		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		inner := net.Must(a.Mutex("x").Lock(ctx))
		require.Equal(t, lease.Wanted(), inner.Wanted(), "one for the holding")
		require.NoError(t, inner.Unlock(t.Context()))
		net.Status(b.ForceUnlock(t.Context(), "x"))
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
		synctest.Wait()
		net.RequireNoKeys()
		free := net.Status(b.Inspect(t.Context(), "x"))
		require.False(t, free.Notifiable)
	})
}

func TestAskReachesTheHolderAndLeavesNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		require.NoError(t, b.Ask(t.Context(), "x"), "it is free")
		plain := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		require.NoError(t, b.Ask(t.Context(), "x"), "its holder is not told")
		require.NoError(t, plain.Unlock(t.Context()))
		if net.Kind != testnet.Shared { // the node does not know which readers want to be told
			requireNobodyAsked(t, net)
		}

		lease := net.Must(net.Mutex(a, "x", redlock.WithWanted()).Lock(t.Context()))
		require.NoError(t, b.Ask(t.Context(), "y"))
		time.Sleep(8 * time.Second)
		require.Equal(t, net.Kind == testnet.Shared, isWanted(lease), "the readers before it were asked, or nobody")
		net.Nodes[0].Down()
		require.NoError(t, b.Ask(t.Context(), "x"))
		time.Sleep(4 * time.Second)
		require.True(t, isWanted(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(10 * time.Second) // a ttl
		requireNobodyAsked(t, net)
	})
}

// requireNobodyAsked checks that no node keeps that a holder was asked.
func requireNobodyAsked(t *testing.T, net *testnet.Net) {
	t.Helper()
	synctest.Wait()
	for _, n := range net.Nodes {
		require.False(t, n.Redis.Exists(protocol.AskedKey("redlock:x")), "node %d", n.Index)
	}
}

// What the holder before was asked does not concern the next one.
func TestNextHolderIsNotAskedForTheLast(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		deafen(net)
		c := net.Client(redlock.WithWanted())
		first := net.Must(c.Mutex("x").Lock(t.Context()))
		require.NoError(t, c.Ask(t.Context(), "x"))
		require.NoError(t, first.Unlock(t.Context()))
		next := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(20 * time.Second)
		require.False(t, isWanted(next))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestAskSaysWhyItFailed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.ErrorIs(t, c.Ask(t.Context(), ""), redlock.ErrConfig)
		require.ErrorIs(t, net.Client(redlock.WithPrefix("")).Ask(t.Context(), "redlock::x"), redlock.ErrConfig)
		net.Nodes[0].Down()
		net.Nodes[1].Freeze()
		err := c.Ask(t.Context(), "x")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, "ask", q.Op)
		require.Len(t, q.Votes, 3)
		require.ErrorContains(t, err, "1 of 3 nodes granted, 2 needed")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Ask(ctx, "x"), context.Canceled)
		net.Nodes[1].Thaw()
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Ask(t.Context(), "x"), redlock.ErrClosed)
	})
}

// The advice stands once: a node that is down has it with its reason already.
func TestAskAdvisesOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Refusing = redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		})
		net.Nodes[1].Refuse("NOPERM this user has no permissions to run the 'eval' command", "EVAL")
		err := net.Client().Ask(t.Context(), "x")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, 1, strings.Count(q.Votes[0].Cause.Error(), "(check the user"), "it is down")
		require.Equal(t, 1, strings.Count(q.Votes[1].Cause.Error(), "grant the user"), "it refused")
		require.NoError(t, q.Votes[2].Cause)
	})
}

// The new owner of a lease that was transferred is told as any other.
func TestHolderThatResumedALeaseIsTold(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, text := transfer(t, a)
		require.Nil(t, lease.Wanted())
		resumed := net.Must(b.Resume(t.Context(), text, redlock.WithWanted()))
		require.False(t, isWanted(resumed))
		require.NoError(t, a.Ask(t.Context(), "x"))
		require.True(t, isWanted(resumed))
		require.NoError(t, resumed.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
