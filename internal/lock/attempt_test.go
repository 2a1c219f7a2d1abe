package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A waiter's rollback goes to these nodes, and to no others.
func TestAttemptMayStandAtNodesThatGrantedOrDidNotAnswer(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		b := testhook.Lock(net.Client().Mutex("x")).NewAttempt(t.Context(), nil)
		answers := []quorum.Answer{
			{Count: quorum.Yes, Outcome: quorum.Confirmed},
			{Count: quorum.No, Outcome: quorum.Refused, Holder: "them"},
			{Count: quorum.NoAnswer, Outcome: quorum.NotSent}, // it had lost the scripts
			{Count: quorum.NoAnswer, Outcome: quorum.Unknown},
			{Count: quorum.NoAnswer, Outcome: quorum.Unknown},
		}
		b.SetAnswers(0b01111, func(i int) (*admission.VoteRight, quorum.Answer) { return nil, answers[i] })
		require.Equal(t, quorum.NodeSet(0b01001), b.MayHold())
	})
}

func TestRefusedAttemptIsRolledBackOnce(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		net.Must(net.Mutex(a, "x").Lock(t.Context()))
		synctest.Wait()
		for name, attempt := range map[string]func(ctx context.Context) (*redlock.Lease, error){
			"TryLock": b.Mutex("x").TryLock,
			"Lock":    b.Mutex("x").Lock,
		} {
			net.Nodes.Set(func(n *testnet.Node) { n.Delay, n.Log = 5*ms, nil })
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			failed := make(chan error, 1)
			go func() {
				_, err := attempt(ctx)
				failed <- err
			}()
			time.Sleep(50 * ms)
			for _, n := range net.Nodes {
				require.Equal(t, 1, n.Executed("release"), "%s, node %d", name, n.Index)
			}
			require.ErrorIs(t, <-failed, redlock.ErrHeld)
			cancel()
			time.Sleep(100 * ms)
		}
	})
}

func TestReplyThatCannotBeReadEndsTheConnection(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		before := testhook.Engine(c).Cluster.Nodes()[0].Pipe()
		b := testhook.Lock(net.Mutex(c, "x")).NewAttempt(t.Context(), nil)
		b.Votes[0].Receive("as if it were another call's", nil)
		time.Sleep(time.Second)
		require.NotNil(t, testhook.Engine(c).Cluster.Nodes()[0].Pipe())
		require.NotSame(t, before, testhook.Engine(c).Cluster.Nodes()[0].Pipe())
	})
}

func TestFailureHasTheTimeThatTheLastBallotTook(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		time.Sleep(time.Second)
		for i, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:x", fmt.Sprint("foreign", i)))
			n.Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		}
		q := net.NoQuorum(net.Mutex(c, "x").TryLock(t.Context()))
		require.Equal(t, 20*ms, q.Elapsed)
	})
}

// Waiters of a client that has too many attempts under way.

// patient is a caller that is not urgent.
type patient struct{}

func (patient) TurnAwaited(context.Context, int) func(error) { return func(error) {} }
func (patient) IsUrgent() bool                               { return false }
func (patient) Changed() <-chan struct{}                     { return nil }

// crowd takes turns of a client until no further call without a queue would get one, and returns the function
// that gives one back.
func crowd(t *testing.T, c *redlock.Client) (leave func()) {
	t.Helper()
	e := testhook.Engine(c)
	var taken []limiter.Attempt
	for {
		a, err := e.Attempts.Enter(t.Context(), 0, time.Nanosecond, patient{})
		if err != nil {
			require.ErrorIs(t, err, limiter.ErrTooLate)
			return func() {
				taken[0].Leave(limiter.Result{})
				taken = taken[1:]
			}
		}
		taken = append(taken, a)
	}
}

// awaitLock locks x as a waiter, and returns the channel that gets the lease.
func awaitLock(net *testnet.Net, m *redlock.Mutex) <-chan *redlock.Lease {
	got := net.Begin(m.Lock)
	time.Sleep(10 * ms)
	synctest.Wait()
	return got
}

// wake has the last waiter for x, which is one of c's, take a message of a node.
func wake(t *testing.T, net *testnet.Net, c *redlock.Client, kind string) {
	t.Helper()
	line, err := net.Nodes[0].Redis.ZMembers(protocol.Reserved + "queue:redlock:x")
	require.NoError(t, err)
	testhook.Engine(c).Queue().Message(testhook.Engine(c).Cluster.Nodes()[0].Node, kind+" "+slices.Max(line)+" redlock:x")
	synctest.Wait()
}

// The nodes execute the last attempt of a waiter while it waits for its turn to ask them again: then
// it asks nothing, and gives the turn back.
func TestWaiterThatGotTheLockWhileItWaitedForItsTurnAsksNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		got := awaitLock(net, b.Mutex("x"))
		leave := crowd(t, b)
		wake(t, net, b, "look")
		net.ClearLogs()
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(10 * ms)
		leave()
		next := <-got
		synctest.Wait()
		for _, n := range net.Nodes {
			require.Zero(t, n.Attempts(), "node %d", n.Index)
		}
		turn, err := testhook.Engine(b).Attempts.Enter(t.Context(), 0, time.Nanosecond, patient{})
		require.NoError(t, err, "the turn is given back")
		turn.Leave(limiter.Result{})
		require.NoError(t, next.Unlock(t.Context()))
		for range 63 {
			leave()
		}
		net.RequireNoKeys()
	})
}

// A node reserves the lock for a waiter for half a second, and a client that does not answer a challenge by then
// counts as dead.
func TestWokenWaiterDoesNotWaitForItsTurn(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		first := awaitLock(net, b.Mutex("x"))
		second := awaitLock(net, c.Mutex("x"))
		time.Sleep(300 * ms) // nothing is parked any more
		crowd(t, b)
		require.NoError(t, held.Unlock(t.Context()))
		select {
		case held = <-first:
		case held = <-second:
			require.Fail(t, "a later waiter got the lock")
		}
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, (<-second).Unlock(t.Context()))
	})
}

func TestWakeUpEndsTheWaitForATurn(t *testing.T) {
	for _, kind := range []string{"look", "ready"} {
		for name, waits := range map[string]bool{"before": false, "meanwhile": true} {
			t.Run(kind+" "+name, func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					a, b := net.Client(), testnet.ListeningClient(t, net)
					held := net.Must(a.Mutex("x").Lock(t.Context()))
					first := awaitLock(net, b.Mutex("x"))
					second := awaitLock(net, b.Mutex("x"))
					leave, turns := crowd(t, b), testhook.Engine(b).Attempts
					for waits && turns.Waiting() == 0 { // until the second one asks again
						crowd(t, b) // the limit grows with each attempt of the first
						time.Sleep(ms)
					}
					net.ClearLogs()
					wake(t, net, b, kind)
					time.Sleep(60 * ms)
					require.NotZero(t, net.Nodes[0].Attempts())
					require.Zero(t, turns.Waiting())
					leave()
					require.NoError(t, held.Unlock(t.Context()))
					require.NoError(t, (<-first).Unlock(t.Context()))
					require.NoError(t, (<-second).Unlock(t.Context()))
				})
			})
		}
	}
}

// A waiter that does not ask in time loses its place in the queue. The first of a client's waiters asks for all of them.
func TestClientWithManyCallsKeepsItsPlaceInTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		held := net.Must(a.Mutex("x").Lock(t.Context()))
		first := awaitLock(net, b.Mutex("x"))
		second := awaitLock(net, c.Mutex("x"))
		crowd(t, b)
		time.Sleep(20 * time.Second)
		line, err := net.Nodes[0].Redis.ZMembers(protocol.Reserved + "queue:redlock:x")
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, (<-first).Unlock(t.Context()))
		require.NoError(t, (<-second).Unlock(t.Context()))
	})
}

// While a majority is frozen, a client's calls pause together. A TryLock does not: it ends at once, and names the nodes
// that owe answers.
func TestTryLockIsNotKeptByAPause(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		net.NoQuorum(c.Mutex("first").TryLock(t.Context()))
		time.Sleep(10 * ms)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				_, err := c.Mutex(fmt.Sprint(i)).TryLock(t.Context())
				assert.ErrorContains(t, err, "stalled: no answer for")
			})
		}
		all.Wait()
		require.Less(t, time.Since(began), 10*ms)
	})
}

// One node is down, one is stalled, and the third alone is no quorum. A crowd finds that out by few attempts.
func TestFewAttemptsAreMadeWhereOneNodeIsDownAndOneIsStalled(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const callers, stall = 2000, time.Second
		c := net.Client(redlock.WithTTL(10 * time.Second)) // a node timeout of half a second
		lease := net.Must(c.Mutex("first").Lock(t.Context()))
		net.Nodes[0].Down()
		net.Nodes[1].Freeze()
		c.Mutex("second").TryLock(t.Context()) // whose answer is overdue when the others come
		time.Sleep(500 * ms)
		before := c.Stats()
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				lease, err := c.Mutex(fmt.Sprint("x-", i)).Lock(t.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, lease.Unlock(t.Context()))
				}
			})
		}
		time.Sleep(stall)
		require.Less(t, c.Stats().NoQuorum-before.NoQuorum, uint64(callers/4))
		net.Nodes[1].Thaw()
		all.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// While too few nodes answer, a crowd waits for its turn. A TryLock does not, and a Lock whose context ends says what ails
// the nodes, though it has not asked them.
func TestCallsThatWaitInAnOutageSayWhatAilsTheNodes(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := testnet.ListeningClient(t, net)
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				_, err := c.Mutex("x").Lock(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, redlock.ErrNoQuorum)
				assert.ErrorContains(t, err, "connection refused")
			})
		}
		time.Sleep(500 * ms)
		require.Positive(t, testhook.Engine(c).Attempts.Waiting())
		require.Zero(t, testnet.Elapsed(func() {
			_, err := c.Mutex("y").TryLock(t.Context())
			require.ErrorContains(t, err, "connection refused")
		}))
		all.Wait()
	})
}

// endingContext ends when it has been asked a number of times whether it has, and wakes nobody.
type endingContext struct {
	context.Context
	lasts int
}

func (c *endingContext) Err() error {
	if c.lasts--; c.lasts < 0 {
		return context.Canceled
	}
	return nil
}

// A caller that gives up at the instant of the quorum gets no lease.
func TestGrantsAsTheCallEndsAreReportedAsSuch(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client().Mutex("x")
		var last error
		for lasts := 0; ; lasts++ {
			lease, err := m.TryLock(&endingContext{context.Background(), lasts})
			if err == nil {
				require.NoError(t, lease.Unlock(t.Context()))
				break
			}
			last = err
		}
		require.ErrorIs(t, last, context.Canceled)
		require.ErrorIs(t, last, redlock.ErrNoQuorum)
		require.ErrorContains(t, last, "3 nodes granted, 2 needed, but only as the call ended")
	})
}
