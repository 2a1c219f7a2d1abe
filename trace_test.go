package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tape has all that hooks were told.
type tape struct {
	mu     sync.Mutex // protects events
	events []any
}

func recordOn[E any](t *tape) func(E) {
	return func(e E) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.events = append(t.events, e)
	}
}

func (t *tape) trace() *Trace {
	return &Trace{
		CallStart: recordOn[CallStart](t), CallEnd: recordOn[CallEnd](t),
		BallotStart: recordOn[BallotStart](t), BallotVote: recordOn[BallotVote](t), BallotEnd: recordOn[BallotEnd](t),
		WaitStart: recordOn[WaitStart](t), WaitEnd: recordOn[WaitEnd](t),
		LeaseGranted: recordOn[LeaseGranted](t), LeaseRenewed: recordOn[LeaseRenewed](t), LeaseDanger: recordOn[LeaseDanger](t),
		LeaseLost: recordOn[LeaseLost](t), LeaseReleased: recordOn[LeaseReleased](t),
		NodeUp: recordOn[NodeUp](t), NodeDown: recordOn[NodeDown](t), NodeStalled: recordOn[NodeStalled](t),
		NodeQuarantined: recordOn[NodeQuarantined](t),
	}
}

// told returns the events of one kind, in order, once nothing is under way.
func told[E any](t *tape) []E {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []E
	for _, e := range t.events {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// clear forgets what was told before.
func (t *tape) clear() {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = nil
}

// story is the events in short: their kinds and what they are about.
func (t *tape) story() []string {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, e := range t.events {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "redlock.")
		switch e := e.(type) {
		case CallStart:
			kind += " " + e.Op
		case CallEnd:
			kind += " " + e.Op
		case BallotStart:
			kind += " " + e.Op
		case BallotEnd:
			kind += " " + e.Op + " " + e.Outcome.String()
		case BallotVote:
			if e.Late {
				continue // its place among the others is not certain
			}
			kind += " " + e.Outcome.String()
		}
		all = append(all, kind)
	}
	return all
}

func TestHooksTellALockAndItsReleaseInOrder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		c := net.client(WithTrace(heard.trace()), WithTTL(10*time.Second))
		require.Len(t, told[NodeUp](&heard), 3)
		heard.clear()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 5 * ms })
		}
		began := time.Now()
		ctx := context.WithValue(t.Context(), callKey{}, "the user's own")
		lease, err := c.Mutex("x").Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(ctx))
		require.Equal(t, []string{
			"CallStart lock", "BallotStart lock", "BallotVote granted", "BallotVote granted", "BallotEnd lock granted",
			"LeaseGranted", "CallEnd lock",
			"CallStart unlock", "LeaseReleased", "BallotStart unlock", "BallotVote granted", "BallotVote granted",
			"BallotEnd unlock granted", "CallEnd unlock",
		}, heard.story())

		call, ended := told[CallStart](&heard)[0], told[CallEnd](&heard)[0]
		require.Equal(t, CallStart{Context: ctx, Time: began, Call: call.Call, Op: "lock", Name: "x"}, call)
		require.Equal(t, CallEnd{CallStart: call, Elapsed: 10 * ms, Owner: lease.Owner(), Token: lease.Token()}, ended)
		start, end := told[BallotStart](&heard)[0], told[BallotEnd](&heard)[0]
		require.NotZero(t, start.Ballot)
		require.Equal(t, BallotStart{Context: ctx, Time: began, Call: call.Call, Ballot: start.Ballot, Op: "lock", Name: "x", Owner: lease.Owner()}, start)
		require.Equal(t, BallotEnd{BallotStart: start, Elapsed: 10 * ms, Outcome: Granted, Granted: 2}, end)
		votes := told[BallotVote](&heard)
		require.Len(t, votes, 6, "the third of each is told as late")
		require.Equal(t, start, votes[0].BallotStart)
		require.Equal(t, 10*ms, votes[0].Latency)
		require.Equal(t, c.nodes[votes[0].Index].Name, votes[0].Node)
		got := told[LeaseGranted](&heard)[0]
		require.Equal(t, LeaseGranted{Context: ctx, Time: began.Add(10 * ms), Call: call.Call, Name: "x", Owner: lease.Owner(),
			Token: lease.Token(), Remaining: 10*time.Second - 102*ms - 10*ms, Elapsed: 10 * ms}, got)
		released := told[LeaseReleased](&heard)[0]
		require.Equal(t, LeaseReleased{Context: ctx, Time: began.Add(1010 * ms), Call: told[CallStart](&heard)[1].Call, Name: "x",
			Owner: lease.Owner(), Token: lease.Token(), Held: 1010 * ms, Err: ErrReleased}, released)
	})
}

func TestAVoteAfterTheVerdictIsToldAsLate(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		c := net.client(WithTrace(heard.trace()), WithNodeTimeout(50*ms))
		heard.clear()
		net.nodes[2].set(func(n *testNode) { n.delay = 40 * ms })
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		votes := told[BallotVote](&heard)
		require.Len(t, votes, 3)
		late := votes[2]
		require.True(t, late.Late)
		require.Equal(t, 2, late.Index)
		require.Equal(t, Granted, late.Outcome)
		require.Equal(t, 80*ms, late.Latency)
		require.Equal(t, lease.Owner(), late.Owner)
		require.Equal(t, uint64(0), c.Stats().Nodes[2].Late, "nobody has taken it for silent")
	})
}

func TestAnAnswerAfterTheTimeoutIsToldTwice(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		c := net.client(WithTrace(heard.trace()), WithNodeTimeout(50*ms))
		heard.clear()
		net.nodes[0].freeze()
		net.nodes[1].freeze()
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		net.nodes[0].thaw()
		net.nodes[1].thaw()
		var outcomes []string
		for _, v := range told[BallotVote](&heard) {
			if v.Op == "lock" && v.Index == 0 {
				outcomes = append(outcomes, fmt.Sprint(v.Outcome, " ", v.Late))
			}
		}
		require.Equal(t, []string{"unknown false", "granted true"}, outcomes)
		end := told[BallotEnd](&heard)[0]
		require.Equal(t, Unknown, end.Outcome)
		require.Equal(t, [3]int{1, 0, 2}, [3]int{end.Granted, end.Refused, end.Silent})
		require.Equal(t, uint64(1), c.Stats().Nodes[0].Late)
	})
}

func TestARollbackBelongsToItsCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		_, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var heard tape
		c := net.client(WithTrace(heard.trace()))
		heard.clear()
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		call := told[CallEnd](&heard)[0]
		require.ErrorIs(t, call.Err, ErrHeld)
		ballots := told[BallotStart](&heard)
		require.Len(t, ballots, 2)
		require.Equal(t, "rollback", ballots[1].Op)
		require.Equal(t, call.Call, ballots[1].Call)
		require.Equal(t, call.Context, ballots[1].Context)
		require.Equal(t, Refused, told[BallotEnd](&heard)[0].Outcome)
	})
}

func TestHooksTellWhoWaitsAndForHowLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var heard tape
		c := net.client(WithTrace(heard.trace()))
		heard.clear()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err = c.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start, end := told[WaitStart](&heard)[0], told[WaitEnd](&heard)[0]
		require.Equal(t, WaitStart{Context: ctx, Time: began, Call: told[CallStart](&heard)[0].Call, Name: "x"}, start)
		require.Equal(t, 5*time.Second, end.Waited)
		require.Equal(t, 1, end.Place)
		require.ErrorIs(t, end.Err, ErrHeld)
		s := c.Stats()
		require.Equal(t, uint64(1), s.Waits)
		require.Equal(t, 5*time.Second, s.WaitTime)

		heard.clear()
		time.AfterFunc(time.Second, func() { _ = lease.Unlock(context.Background()) })
		_, err = c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Len(t, told[WaitStart](&heard), 1, "one wait, however many attempts")
		end = told[WaitEnd](&heard)[0]
		require.NoError(t, end.Err)
		require.Equal(t, time.Second, end.Waited.Round(100*ms))
	})
}

func TestHooksTellHowALeaseGoesOnAndIsLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		c := net.client(WithTrace(heard.trace()), WithTTL(3*time.Second))
		began := time.Now()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		renewed := told[LeaseRenewed](&heard)
		require.Len(t, renewed, 1)
		require.Equal(t, LeaseRenewed{Time: renewed[0].Time, Name: "x", Owner: lease.Owner(), Token: lease.Token(),
			Remaining: 3*time.Second - 32*ms}, renewed[0])
		require.NoError(t, lease.Extend(t.Context()))
		require.Len(t, told[LeaseRenewed](&heard), 2)
		for _, n := range net.nodes {
			n.down()
		}
		<-lease.Done()
		held := time.Since(began)
		dangers, lost := told[LeaseDanger](&heard), told[LeaseLost](&heard)
		require.NotEmpty(t, dangers)
		require.Equal(t, lease.Token(), dangers[0].Token)
		require.False(t, dangers[0].Time.IsZero())
		require.Equal(t, []LeaseLost{{Time: began.Add(held), Name: "x", Owner: lease.Owner(), Token: lease.Token(), Held: held, Err: lease.Err()}}, lost)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrLost)
		require.Empty(t, told[LeaseReleased](&heard))
		require.Len(t, told[LeaseLost](&heard), 1)
	})
}

func TestCloseTellsWhatItReleasesAndThenNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var heard tape
		trace := heard.trace()
		trace.LeaseReleased = func(e LeaseReleased) {
			time.Sleep(time.Second) // what comes meanwhile is told too
			recordOn[LeaseReleased](&heard)(e)
		}
		c := net.client(WithTrace(trace))
		_, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		heard.mu.Lock() // at once: what comes later would be a mistake
		count := len(heard.events)
		heard.mu.Unlock()
		released := told[LeaseReleased](&heard)
		require.Len(t, released, 1)
		require.ErrorIs(t, released[0].Err, ErrClosed)
		require.Empty(t, told[NodeDown](&heard), "who closes knows")
		_, err = c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(time.Minute)
		require.Len(t, told[any](&heard), count)
	})
}
