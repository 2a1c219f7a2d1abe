package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
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
		_, err := net.Mutex(a, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for name, attempt := range map[string]func(ctx context.Context) (*redlock.Lease, error){
			"TryLock": b.Mutex("x").TryLock,
			"Lock":    b.Mutex("x").Lock,
		} {
			for _, n := range net.Nodes {
				n.Set(func(n *testnet.Node) { n.Delay, n.Log = 5*ms, nil })
			}
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
		before := testhook.Engine(c).Cluster.Nodes[0].Pipe()
		b := testhook.Lock(net.Mutex(c, "x")).NewAttempt(t.Context(), nil)
		b.Votes[0].Receive("as if it were another call's", nil)
		time.Sleep(time.Second)
		require.NotNil(t, testhook.Engine(c).Cluster.Nodes[0].Pipe())
		require.NotSame(t, before, testhook.Engine(c).Cluster.Nodes[0].Pipe())
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
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, 20*ms, q.Elapsed)
	})
}
