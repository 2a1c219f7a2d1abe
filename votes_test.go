package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

func TestAHandOverIsOneWhereAQuorumKeepsTheKey(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		b := c.Mutex("x").newBallot(releasing, "me", nil, 0)
		for handed := range 6 {
			require.Equal(t, handed >= 3, b.handedOver(), "%d of 5", handed)
			if handed < 5 {
				b.Votes[handed].Take(quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Handed: true})
			}
		}
	})
}

// A waiter's rollback goes to the nodes that may hold the attempt, and to no others.
func TestOnlyWhoMayHoldAnAttemptIsUnsettled(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		b := net.client().Mutex("x").newBallot(acquiring, "me", nil, 0)
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

func TestARollbackGoesToThoseWhoMayHoldTheAttempt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		b := c.Mutex("x").undo("me", 0b001, nil, false)
		var v quorum.Verdict
		took := elapsed(func() { v, _ = b.Await(t.Context(), time.Second, nil) })
		require.Equal(t, quorum.Failed, v)
		require.Zero(t, took, "who is not asked is not awaited")
		time.Sleep(100 * ms)
		for i, n := range net.nodes {
			require.Equal(t, i == 0, n.executed("release") == 1, "node %d", i)
		}
	})
}

func TestAnAttemptIsRolledBackOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		_, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for name, attempt := range map[string]func(ctx context.Context) (*Lease, error){
			"TryLock": b.Mutex("x").TryLock,
			"Lock":    b.Mutex("x").Lock,
		} {
			for _, n := range net.nodes {
				n.set(func(n *testNode) { n.delay, n.log = 5*ms, nil })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			failed := make(chan error, 1)
			go func() {
				_, err := attempt(ctx)
				failed <- err
			}()
			time.Sleep(50 * ms)
			for _, n := range net.nodes {
				require.Equal(t, 1, n.executed("release"), "%s, node %d", name, n.index)
			}
			require.ErrorIs(t, <-failed, ErrHeld)
			cancel()
			time.Sleep(100 * ms)
		}
	})
}

func TestANodeThatWasNotAskedIsOwedNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[2].down()
		synctest.Wait()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Zero(t, c.nodes[2].Undos())
	})
}

// It has a key there that no script of the library can read, and never set.
func TestANodeWithAKeyOfAnotherTypeIsOwedNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		answers := func(cmd string, _ []string) string {
			if cmd == "EVALSHA" {
				return "WRONGTYPE Operation against a key holding the wrong kind of value"
			}
			return ""
		}
		net.nodes[0].set(func(n *testNode) { n.override = answers })
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.Zero(t, c.nodes[0].Undos())
		b := c.Mutex("x").newBallot(releasing, "me", protocol.Release.BySHA("redlock:x", "me"), 0)
		net.nodes[0].set(func(n *testNode) { n.delay = 10 * ms })
		b.Send(0b001, false)
		b.Votes[0].Receive(nil, redis.Error("WRONGTYPE Operation against a key"))
		require.Zero(t, c.nodes[0].Undos())
	})
}

func TestAReplyThatMakesNoSenseEndsTheConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		before := c.nodes[0].Pipe()
		b := c.Mutex("x").newBallot(acquiring, "me", nil, c.opts.clock())
		b.Votes[0].Receive("as if it were another call's", nil)
		time.Sleep(time.Second)
		require.NotNil(t, c.nodes[0].Pipe())
		require.NotSame(t, before, c.nodes[0].Pipe())
	})
}

func TestAFailedBallotTellsHowLongItTook(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		time.Sleep(time.Second)
		for i, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:x", fmt.Sprint("foreign", i)))
			n.set(func(n *testNode) { n.delay = 10 * ms })
		}
		_, _, err := c.Mutex("x").attemptOnce(t)
		require.Equal(t, 20*ms, err.Elapsed)
	})
}

// attemptOnce is one ballot of who does not wait, which fails.
func (m *Mutex) attemptOnce(t *testing.T) (*Lease, *refusal, *QuorumError) {
	t.Helper()
	lease, r, err := m.attempt(t.Context(), nil)
	require.NoError(t, err)
	require.Nil(t, lease)
	var q *QuorumError
	require.ErrorAs(t, r.err, &q)
	return lease, r, q
}

// The counter of a name is part of docs/protocol.md: clients must agree on it.
func TestTheCounterOfANameIsItsHash(t *testing.T) {
	require.Equal(t, "161", protocol.StripeOf("redlock:lock-0"))
	require.NotEqual(t, protocol.StripeOf("redlock:a"), protocol.StripeOf("redlock:b"))
}

func TestAContextThatEndsDuringTheWriteBackIsTold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		net.nodes[0].redis.HIncrBy(net.nodes[0].record(), protocol.StripeOf("redlock:x"), 1000)
		net.nodes[2].down()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * ms })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*ms) // a round trip and a half
		defer cancel()
		_, err := c.Mutex("x").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		net.requireNoKeys()
	})
}

func TestWhoHandsTheLockOverLetsTheOtherGoFirst(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 10 * ms })
		}
		for _, waited := range []bool{false, true} {
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *Lease, 1)
			if waited {
				go func() {
					lease, _ := b.Mutex("x").Lock(t.Context())
					got <- lease
				}()
				time.Sleep(time.Second)
			}
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, waited, a.line.courtesy("redlock:x") == 30*ms)
			if waited {
				require.NoError(t, (<-got).Unlock(t.Context()))
			}
		}
	})
}

func TestAWaiterIsReadyWhereTheAnswerToItsYieldingSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		m := net.client().Mutex("x")
		w := &waiter{wake: make(chan struct{}, 1)}
		yielded, attempt, release := m.newBallot(releasing, "me", nil, 0), m.newBallot(acquiring, "me", nil, 0), m.newBallot(releasing, "me", nil, 0)
		yielded.Watcher, attempt.waiter = (*yielding)(w), w
		yielded.Votes[0].Receive(int64(handedOver), nil)
		yielded.Votes[1].Receive(int64(keptForYou), nil)
		attempt.Votes[2].Receive(int64(2), nil) // a token
		release.Votes[2].Receive(int64(keptForYou), nil)
		require.Equal(t, quorum.NodeSet(0b010), w.calls)
	})
}
