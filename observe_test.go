package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// userKey is the key of a value in a user's context.
type userKey struct{}

func TestHooksReportALockAndItsReleaseInOrder(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithTTL(10*time.Second))
		require.Len(t, tape.OfNodes("up"), 3)
		tape.Clear()
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 5 * ms })
		began := time.Now()
		ctx := context.WithValue(t.Context(), userKey{}, "the user's own")
		lease := net.Must(c.Mutex("x").Lock(ctx))
		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(ctx))
		require.Equal(t, []string{
			"CallStart lock", "BallotStart lock", "BallotVote granted", "BallotVote granted", "BallotEnd lock granted",
			"Lease granted", "CallEnd lock",
			"CallStart unlock", "Lease released", "BallotStart unlock", "BallotVote granted", "BallotVote granted",
			"BallotEnd unlock granted", "CallEnd unlock",
		}, tape.Story())

		call, ended := testnet.Told[testnet.CallStart](&tape)[0], testnet.Told[testnet.CallEnd](&tape)[0]
		require.Equal(t, testnet.CallStart{Context: ctx, Time: began, Call: call.Call, Op: "lock", Name: "x"}, call)
		require.Equal(t, testnet.CallEnd{Context: ctx, Time: began, Call: call.Call, Op: "lock", Name: "x",
			Elapsed: 10 * ms, Owner: lease.Owner(), Token: lease.Token()}, ended)
		start, end := testnet.Told[testnet.BallotStart](&tape)[0], testnet.Told[testnet.BallotEnd](&tape)[0]
		require.NotZero(t, start.Ballot)
		require.Equal(t, testnet.BallotStart{Context: ctx, Time: began, Call: call.Call, Ballot: start.Ballot, Op: "lock", Name: "x", Owner: lease.Owner()}, start)
		require.Equal(t, testnet.BallotEnd{Context: ctx, Time: began, Call: call.Call, Ballot: start.Ballot, Op: "lock", Name: "x", Owner: lease.Owner(),
			Elapsed: 10 * ms, Outcome: "granted", Granted: 2}, end)
		votes := testnet.Told[redlock.BallotVote](&tape)
		require.Len(t, votes, 6, "the third vote of each ballot is reported as late")
		require.Equal(t, redlock.BallotVote{Context: ctx, Time: began, Call: call.Call, Ballot: start.Ballot, Op: "lock", Name: "x", Owner: lease.Owner(),
			Vote: votes[0].Vote, Latency: 10 * ms}, votes[0])
		require.Equal(t, fmt.Sprintf("node %d (test-%[1]d)", votes[0].Index), votes[0].Node)
		got := tape.OfLeases("granted")[0]
		require.Equal(t, redlock.LeaseEvent{Kind: "granted", Context: ctx, Time: began.Add(10 * ms), Call: call.Call, Name: "x", Owner: lease.Owner(),
			Token: lease.Token(), Remaining: 10*time.Second - 102*ms - 10*ms, Elapsed: 10 * ms}, got)
		released := tape.OfLeases("released")[0]
		require.Equal(t, redlock.LeaseEvent{Kind: "released", Context: ctx, Time: began.Add(1010 * ms), Call: testnet.Told[testnet.CallStart](&tape)[1].Call, Name: "x",
			Owner: lease.Owner(), Token: lease.Token(), Held: 1010 * ms, Err: redlock.ErrReleased}, released)
	})
}

func TestVoteAfterTheVerdictIsReportedAsLate(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithNodeTimeout(50*ms))
		tape.Clear()
		net.Nodes[2].Set(func(n *testnet.Node) { n.Delay = 40 * ms })
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(time.Second)
		votes := testnet.Told[redlock.BallotVote](&tape)
		require.Len(t, votes, 3)
		late := votes[2]
		require.True(t, late.Late)
		require.Equal(t, 2, late.Index)
		require.Equal(t, redlock.Outcome("granted"), late.Outcome)
		require.Equal(t, 80*ms, late.Latency)
		require.Equal(t, lease.Owner(), late.Owner)
		require.Equal(t, uint64(0), c.Stats().Nodes[2].Late, "the vote was not counted as unknown before")
	})
}

func TestVoteAnsweredAfterTheTimeoutIsReportedTwice(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithNodeTimeout(50*ms))
		tape.Clear()
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
		net.Nodes[0].Thaw()
		net.Nodes[1].Thaw()
		var outcomes []string
		for _, v := range testnet.Told[redlock.BallotVote](&tape) {
			if v.Op == "lock" && v.Index == 0 {
				outcomes = append(outcomes, fmt.Sprint(v.Outcome, " ", v.Late))
			}
		}
		require.Equal(t, []string{"unknown false", "granted true"}, outcomes)
		end := testnet.Told[testnet.BallotEnd](&tape)[0]
		require.Equal(t, redlock.Outcome("unknown"), end.Outcome)
		require.Equal(t, [3]int{1, 0, 2}, [3]int{end.Granted, end.Refused, end.Silent})
		require.Equal(t, uint64(1), c.Stats().Nodes[0].Late)
	})
}

func TestRollbackBelongsToItsCall(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Must(net.Client().Mutex("x").Lock(t.Context()))
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()))
		tape.Clear()
		net.Held(c.Mutex("x").TryLock(t.Context()))
		call := testnet.Told[testnet.CallEnd](&tape)[0]
		require.ErrorIs(t, call.Err, redlock.ErrHeld)
		ballots := testnet.Told[testnet.BallotStart](&tape)
		require.Len(t, ballots, 2)
		require.Equal(t, "rollback", ballots[1].Op)
		require.Equal(t, call.Call, ballots[1].Call)
		require.Equal(t, call.Context, ballots[1].Context)
		require.Equal(t, redlock.Outcome("refused"), testnet.Told[testnet.BallotEnd](&tape)[0].Outcome)
	})
}

func TestHooksReportAWaitAndItsLength(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()))
		tape.Clear()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start, end := testnet.Told[testnet.WaitStart](&tape)[0], testnet.Told[testnet.WaitEnd](&tape)[0]
		require.Equal(t, testnet.WaitStart{Context: ctx, Time: began, Call: testnet.Told[testnet.CallStart](&tape)[0].Call, Name: "x"}, start)
		require.Equal(t, 5*time.Second, end.Waited)
		require.Equal(t, 1, end.Position)
		require.ErrorIs(t, end.Err, redlock.ErrHeld)
		s := c.Stats()
		require.Equal(t, uint64(1), s.Waits)
		require.Equal(t, 5*time.Second, s.WaitTime)

		tape.Clear()
		time.AfterFunc(time.Second, func() { _ = lease.Unlock(context.Background()) })
		net.Must(c.Mutex("x").Lock(t.Context()))
		require.Len(t, testnet.Told[testnet.WaitStart](&tape), 1, "one wait, however many attempts")
		end = testnet.Told[testnet.WaitEnd](&tape)[0]
		require.NoError(t, end.Err)
		require.Equal(t, time.Second, end.Waited.Round(100*ms))
	})
}

func TestHooksReportARenewalAndTheLossOfALease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithTTL(3*time.Second))
		began := time.Now()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(time.Second)
		renewed := tape.OfLeases("renewed")
		require.Len(t, renewed, 1)
		require.Equal(t, redlock.LeaseEvent{Kind: "renewed", Time: renewed[0].Time, Name: "x", Owner: lease.Owner(), Token: lease.Token(),
			Remaining: 3*time.Second - 32*ms}, renewed[0])
		require.NoError(t, lease.Extend(t.Context()))
		require.Len(t, tape.OfLeases("renewed"), 2)
		net.Nodes.Down()
		<-lease.Done()
		held := time.Since(began)
		dangers, lost := tape.OfLeases("danger"), tape.OfLeases("lost")
		require.NotEmpty(t, dangers)
		require.Equal(t, lease.Token(), dangers[0].Token)
		require.False(t, dangers[0].Time.IsZero())
		require.Equal(t, []redlock.LeaseEvent{{Kind: "lost", Time: began.Add(held), Name: "x", Owner: lease.Owner(), Token: lease.Token(), Held: held, Err: lease.Err()}}, lost)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
		require.Empty(t, tape.OfLeases("released"))
		require.Len(t, tape.OfLeases("lost"), 1)
	})
}

func TestHooksReportTheReleasesOfCloseAndNothingAfterIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		trace := tape.Trace()
		trace.Lease = func(e redlock.LeaseEvent) {
			if e.Kind == "released" {
				time.Sleep(400 * time.Millisecond) // Close waits for the hook
			}
			testnet.RecordOn[redlock.LeaseEvent](&tape)(e)
		}
		c := net.Client(redlock.WithTrace(trace))
		net.Must(c.Mutex("x").Lock(t.Context()))
		require.NoError(t, c.Close())
		tape.Mu.Lock() // at once: no event may come later
		count := len(tape.Events)
		tape.Mu.Unlock()
		released := tape.OfLeases("released")
		require.Len(t, released, 1)
		require.ErrorIs(t, released[0].Err, redlock.ErrClosed)
		require.Empty(t, tape.OfNodes("down"), "Close is not a failure of a node")
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		time.Sleep(time.Minute)
		require.Len(t, testnet.Told[any](&tape), count)
	})
}

func TestStatsCountCallsVotesAndLeases(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(redlock.WithTTL(3*time.Second)), net.Client()
		first := net.Must(c.Mutex("x").Lock(t.Context()))
		second := net.Must(c.Mutex("y").Lock(t.Context()))
		net.Must(other.Mutex("z").Lock(t.Context()))
		synctest.Wait() // all nodes have its key
		net.Held(c.Mutex("z").TryLock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.Mutex("z").Lock(ctx)
		}()
		time.Sleep(time.Second)
		s := c.Stats()
		require.Equal(t, 2, s.Leases)
		require.Equal(t, 1, s.Waiting)
		cancel()
		<-ended
		require.NoError(t, first.Unlock(t.Context()))
		synctest.Wait()
		s = c.Stats()
		require.Equal(t, 1, s.Leases)
		require.Zero(t, s.Waiting)
		require.Equal(t, uint64(2), s.Acquired)
		require.Equal(t, uint64(1), s.Released)
		require.Equal(t, uint64(1), s.Waits)
		require.Equal(t, time.Second, s.WaitTime.Round(10*ms))
		require.GreaterOrEqual(t, s.Held, uint64(2), "TryLock's attempt, and Lock's")
		require.Equal(t, uint64(2), s.Renewed)
		for _, n := range s.Nodes {
			require.Equal(t, "up", n.State)
			require.Equal(t, uint64(1), n.Connects)
			require.NotZero(t, n.Granted)
			require.NotZero(t, n.Refused)
			require.Zero(t, n.Unknown+n.NotSent+n.Late)
		}
		net.Nodes.Down()
		synctest.Wait()
		net.NoQuorum(c.Mutex("q").TryLock(t.Context()))
		<-second.Done()
		synctest.Wait()
		s = c.Stats()
		require.Equal(t, uint64(1), s.NoQuorum)
		require.Equal(t, uint64(1), s.Lost)
		require.Zero(t, s.Leases)
		require.NotZero(t, s.Unrenewed)
		require.Equal(t, 1, s.Nodes[0].Undos)
		require.NotZero(t, s.Nodes[0].NotSent)
	})
}

func TestStatsCountUnansweredCommands(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		synctest.Wait() // all nodes have answered the ping
		net.Nodes[0].Freeze()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		require.Equal(t, 4, c.Stats().Nodes[0].Unanswered, "the commands of one attempt")
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 5, c.Stats().Nodes[0].Unanswered)
		require.Zero(t, c.Stats().Nodes[0].Unknown, "not yet")
		net.Nodes[0].Cut()
		synctest.Wait()
		require.Equal(t, uint64(2), c.Stats().Nodes[0].Unknown)
	})
}

func TestHooksReportSharesAndTheCallsThatMakeThem(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		m := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithTTL(3*time.Second)).RWMutex("x")
		writer := net.Must(m.TryLock(t.Context()))
		require.NoError(t, writer.Extend(t.Context()))
		require.NoError(t, writer.Downgrade(t.Context()))
		reader := net.Must(m.TryRLock(t.Context()))
		require.NoError(t, writer.Unlock(t.Context()))
		require.NoError(t, reader.Unlock(t.Context()))
		reader = net.Must(m.RLock(t.Context()))
		net.Nodes.Down()
		<-reader.Done()

		var calls []string
		for _, e := range testnet.Told[testnet.CallEnd](&tape) {
			calls = append(calls, fmt.Sprint(e.Op, " ", e.Shared))
		}
		require.Equal(t, []string{"trylock false", "extend false", "downgrade true", "tryrlock true", "unlock true", "unlock true", "rlock true"}, calls)
		var granted, renewed []bool
		for _, e := range tape.OfLeases("granted") {
			granted = append(granted, e.Shared)
		}
		for _, e := range tape.OfLeases("renewed") {
			renewed = append(renewed, e.Shared)
		}
		require.Equal(t, []bool{false, true, true}, granted)
		require.Equal(t, []bool{false, true}, renewed)
		for _, e := range tape.OfLeases("released") {
			require.True(t, e.Shared)
		}
		require.NotEmpty(t, tape.OfLeases("danger"))
		require.True(t, tape.OfLeases("danger")[0].Shared)
		require.Len(t, tape.OfLeases("lost"), 1)
		require.True(t, tape.OfLeases("lost")[0].Shared)
	})
}

// A call that fails before it asks any node is a call to hooks as every other is, whatever it locks.
func TestHooksReportCallsThatAskNoNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()))
		s, rw := c.Semaphore("permits", 3), c.RWMutex("read")
		held := t.Context()
		for _, lock := range []func(context.Context) (*redlock.Lease, error){
			c.Mutex("x").Lock, rw.RLock, c.Multi([]string{"a", "b"}).Lock,
			func(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, 2) },
		} {
			lease, err := lock(held)
			require.NoError(t, err)
			var end context.CancelFunc
			held, end = lease.Context(held)
			defer end()
		}
		asked := len(testnet.Told[testnet.BallotStart](&tape))
		for _, call := range []struct {
			op, name string
			why      error
			make     func() (*redlock.Lease, error)
		}{
			{"lock", "x", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Mutex("x").Lock(held) }},
			{"trylock", "x", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Mutex("x").TryLock(held) }},
			{"rlock", "read", redlock.ErrHeld, func() (*redlock.Lease, error) { return rw.RLock(held) }},
			{"lock", "a, b", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Multi([]string{"b", "a"}).Lock(held) }},
			{"acquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return s.Acquire(held, 2) }},
			{"tryacquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return s.TryAcquire(held, 2) }},
			{"acquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return nil, s.Do(held, 3, nil) }},
			{"lock", "", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Mutex("").Lock(held) }},
			{"acquire", "", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Semaphore("", 3).Acquire(held, 1) }},
			{"acquire", "permits", redlock.ErrConfig, func() (*redlock.Lease, error) { return s.Acquire(held, 4) }},
			{"tryacquire", "permits", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Semaphore("permits", -1).TryAcquire(held, 1) }},
		} {
			before := len(testnet.Told[testnet.CallEnd](&tape))
			lease, err := call.make()
			require.ErrorIs(t, err, call.why)
			require.Nil(t, lease)
			ends := testnet.Told[testnet.CallEnd](&tape)
			require.Len(t, ends, before+1, "%s %q: %v", call.op, call.name, err)
			require.Len(t, testnet.Told[testnet.CallStart](&tape), before+1)
			require.Equal(t, err, ends[before].Err)
			require.Equal(t, call.op, ends[before].Op)
			require.Equal(t, call.name, ends[before].Name)
			require.Equal(t, held, ends[before].Context)
		}
		require.Len(t, testnet.Told[testnet.BallotStart](&tape), asked)
	})
}
