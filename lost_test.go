package redlock

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Why a lease was lost, and where that is said.

// lossOf returns the *LostError that an error is.
func lossOf(t *testing.T, err error) *LostError {
	t.Helper()
	require.ErrorIs(t, err, ErrLost)
	require.NotErrorIs(t, err, ErrNoQuorum, "who checks that first would take the lease for valid")
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	byValue := LostError{}
	require.ErrorAs(t, err, &byValue)
	require.Equal(t, *lost, byValue)
	return lost
}

func TestALostLeaseSaysWhy(t *testing.T) {
	ours := []Option{WithTTL(3 * time.Second), WithNodeTimeout(100 * ms)}
	everyNode := func(net *testNet, do func(n *testNode)) {
		for _, n := range net.nodes {
			do(n)
		}
	}
	for name, c := range map[string]struct {
		opts   []Option
		befall func(t *testing.T, net *testNet)
		reason LostReason
		holder string
		votes  bool
		text   string
	}{
		"its time was over": {
			opts: []Option{WithoutRenewal()}, befall: func(*testing.T, *testNet) {},
			reason: LostExpired, text: "before Remaining is 0",
		},
		"the machine was suspended": {
			befall: func(_ *testing.T, net *testNet) { net.clock.sleep(time.Minute) },
			reason: LostExpired, text: "suspended",
		},
		"it was held for as long as it may": {
			opts: []Option{WithMaxHold(4 * time.Second)}, befall: func(*testing.T, *testNet) {},
			reason: LostMaxHold, text: "WithMaxHold",
		},
		"its keys were deleted": {
			befall: func(_ *testing.T, net *testNet) {
				everyNode(net, func(n *testNode) { n.redis.Del("redlock:x") })
			},
			reason: LostRevoked, votes: true, text: "by ForceUnlock, by hand",
		},
		"it is somebody else's": {
			befall: func(t *testing.T, net *testNet) {
				everyNode(net, func(n *testNode) { require.NoError(t, n.redis.Set("redlock:x", "another")) })
			},
			reason: LostRevoked, holder: "another", votes: true, text: `held by "another" now`,
		},
		"it is several others'": {
			befall: func(t *testing.T, net *testNet) {
				everyNode(net, func(n *testNode) { require.NoError(t, n.redis.Set("redlock:x", n.String())) })
			},
			reason: LostRevoked, votes: true, text: "by ForceUnlock, by hand",
		},
		"no node answers": {
			befall: func(_ *testing.T, net *testNet) { everyNode(net, (*testNode).freeze) },
			reason: LostNoQuorum, votes: true, text: `its renewals failed until its validity ended: extend "x": no quorum`,
		},
		"no node can be asked": {
			befall: func(_ *testing.T, net *testNet) { everyNode(net, (*testNode).down) },
			reason: LostNoQuorum, votes: true, text: "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				var told journal
				events := make(chan LeaseLost, 1)
				client := net.client(append(ours, WithLogger(slog.New(slog.NewTextHandler(&told, nil))),
					WithTrace(&Trace{LeaseLost: func(e LeaseLost) { events <- e }}))...)
				m := client.Mutex("x", c.opts...)
				var fromLease, fromContext, fromUnlock error
				var lease *Lease
				fromDo := m.Do(t.Context(), func(ctx context.Context, l *Lease) error {
					lease = l
					synctest.Wait() // it has all nodes
					c.befall(t, net)
					<-ctx.Done()
					fromContext, fromLease, fromUnlock = context.Cause(ctx), l.Err(), l.Unlock(ctx)
					require.Equal(t, fromLease, l.Extend(ctx))
					return nil
				})
				lost := lossOf(t, fromLease)
				require.Equal(t, LostError{Name: "x", Owner: lease.Owner(), Token: lease.Token(), Reason: c.reason,
					Holder: c.holder, Votes: lost.Votes, Cause: lost.Cause}, *lost)
				require.Equal(t, c.votes, len(lost.Votes) == 3)
				if c.reason == LostNoQuorum {
					require.ErrorIs(t, lost.Cause, ErrNoQuorum)
				} else {
					require.NoError(t, lost.Cause)
				}
				require.ErrorContains(t, lost, c.text)
				for _, err := range []error{fromContext, fromUnlock, fromDo} {
					require.Same(t, lost, lossOf(t, err))
				}
				require.Same(t, lost, (<-events).Err)
				synctest.Wait()
				if c.reason == LostMaxHold || c.opts != nil {
					require.NotContains(t, told.String(), "level=ERROR", "it was asked for")
					require.Contains(t, told.String(), `has run out`)
				} else {
					require.Contains(t, told.String(), `level=ERROR msg="redlock: a lease is lost"`)
				}
				require.Contains(t, told.String(), "holder="+slogText(c.holder)+" error=")
			})
		})
	}
}

// slogText is how slog's TextHandler writes a word.
func slogText(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

func TestErrSaysTheSameBeforeAndAfterTheTimerHasSeenTheEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.clock.sleep(time.Minute)
		before := lossOf(t, lease.Err())
		require.Empty(t, before.Votes)
		<-lease.Done()
		require.Same(t, before, lease.Err())
	})
}

// The answers to a renewal came too late: nobody can be sure of the lease then.
func TestARenewalThatIsGrantedTooLateSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client(WithTTL(3*time.Second), WithNodeTimeout(100*ms)).Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		lease.h.mu.Lock()
		begins := lease.h.renewAt
		lease.h.mu.Unlock()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * ms })
		}
		time.Sleep(begins - net.clock.now() + 30*ms)
		net.clock.sleep(time.Minute) // while the renewal is on its way
		<-lease.Done()
		lost := lossOf(t, lease.Err())
		require.Equal(t, LostNoQuorum, lost.Reason)
		require.ErrorContains(t, lost, "no validity was left")
	})
}

func TestAnUnlockThatFindsNothingSaysThatTheLeaseWasRevoked(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.nodes {
			n.redis.Del("redlock:x")
		}
		lost := lossOf(t, lease.Unlock(t.Context()))
		require.Equal(t, LostError{Name: "x", Owner: lease.Owner(), Token: lease.Token(), Reason: LostRevoked}, *lost)
	})
}

func TestAFailedExtendIsTheCauseWhereNothingElseRenews(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client(WithoutRenewal()).Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[0].down()
		net.nodes[1].down()
		require.ErrorIs(t, lease.Extend(t.Context()), ErrNoQuorum)
		<-lease.Done()
		lost := lossOf(t, lease.Err())
		require.Equal(t, LostNoQuorum, lost.Reason)
		require.Len(t, lost.Votes, 3)
		require.ErrorContains(t, lost.Cause, `extend "x": no quorum`)
	})
}

func TestTheReasonsOfALossInWords(t *testing.T) {
	for reason, words := range map[LostReason]string{LostExpired: "expired", LostMaxHold: "max hold",
		LostRevoked: "revoked", LostNoQuorum: "no quorum", 7: "LostReason(7)"} {
		require.Equal(t, words, reason.String())
	}
	require.False(t, errors.Is(LostError{}, ErrReleased))
	require.ErrorContains(t, LostError{Name: "x", Reason: LostNoQuorum}, `redlock: the lease of "x" is lost: its renewals failed`)
}
