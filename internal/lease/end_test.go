package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A lease that is lost ends with a reason.

// lossOf returns the *LostError that an error is.
func lossOf(t *testing.T, err error) *redlock.LostError {
	t.Helper()
	require.ErrorIs(t, err, redlock.ErrLost)
	require.NotErrorIs(t, err, redlock.ErrNoQuorum, "a caller that checks that first would take the lease for valid")
	var lost *redlock.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}

func TestLostErrorSaysWhyTheLeaseEnded(t *testing.T) {
	ours := []redlock.ClientOption{redlock.WithTTL(3 * time.Second), redlock.WithNodeTimeout(100 * ms)}
	everyNode := func(net *testnet.Net, do func(n *testnet.Node)) {
		for _, n := range net.Nodes {
			do(n)
		}
	}
	for name, c := range map[string]struct {
		opts   []redlock.LockOption
		strike func(t *testing.T, net *testnet.Net)
		reason redlock.LostReason
		holder string
		votes  bool
		text   string
	}{
		"its validity ended": {
			opts: []redlock.LockOption{redlock.WithoutRenewal()}, strike: func(*testing.T, *testnet.Net) {},
			reason: redlock.LostExpired, text: "it is WithoutRenewal, and was not extended",
		},
		"the machine was suspended": {
			strike: func(_ *testing.T, net *testnet.Net) { net.Clock.Sleep(time.Minute) },
			reason: redlock.LostExpired, text: "suspended",
		},
		"it was held for as long as it may": {
			opts: []redlock.LockOption{redlock.WithMaxHold(4 * time.Second)}, strike: func(*testing.T, *testnet.Net) {},
			reason: redlock.LostMaxHold, text: "WithMaxHold",
		},
		"its keys were deleted": {
			strike: func(_ *testing.T, net *testnet.Net) {
				everyNode(net, func(n *testnet.Node) { n.Redis.Del("redlock:x") })
			},
			reason: redlock.LostRevoked, votes: true, text: "by ForceUnlock, by hand",
		},
		"another owner has it": {
			strike: func(t *testing.T, net *testnet.Net) {
				everyNode(net, func(n *testnet.Node) { require.NoError(t, n.Redis.Set("redlock:x", "another")) })
			},
			reason: redlock.LostRevoked, holder: "another", votes: true, text: `held by "another" now`,
		},
		"a program has set an empty value": {
			strike: func(t *testing.T, net *testnet.Net) {
				everyNode(net, func(n *testnet.Node) { require.NoError(t, n.Redis.Set("redlock:x", "")) })
			},
			reason: redlock.LostRevoked, holder: protocol.EmptyHolder, votes: true, text: "(an empty value)",
		},
		"several owners have it": {
			strike: func(t *testing.T, net *testnet.Net) {
				everyNode(net, func(n *testnet.Node) { require.NoError(t, n.Redis.Set("redlock:x", n.String())) })
			},
			reason: redlock.LostRevoked, votes: true, text: "by ForceUnlock, by hand",
		},
		"no node answers": {
			strike: func(_ *testing.T, net *testnet.Net) { everyNode(net, (*testnet.Node).Freeze) },
			reason: redlock.LostNoQuorum, votes: true, text: "its renewals failed until its validity ended: extend ",
		},
		"no node can be asked": {
			strike: func(_ *testing.T, net *testnet.Net) { everyNode(net, (*testnet.Node).Down) },
			reason: redlock.LostNoQuorum, votes: true, text: "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				var lines testnet.Journal
				events := make(chan redlock.LeaseEvent, 1)
				client := net.Client(append(ours, redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))),
					redlock.WithTrace(testnet.OnLease("lost", func(e redlock.LeaseEvent) { events <- e })))...)
				m := net.Mutex(client, "x", c.opts...)
				var fromLease, fromContext, fromUnlock error
				var lease *redlock.Lease
				fromDo := m.Do(t.Context(), func(ctx context.Context, l *redlock.Lease) error {
					lease = l
					synctest.Wait() // all nodes have granted it
					c.strike(t, net)
					<-ctx.Done()
					fromContext, fromLease, fromUnlock = context.Cause(ctx), l.Err(), l.Unlock(ctx)
					require.Equal(t, fromLease, l.Extend(ctx))
					return nil
				})
				lost := lossOf(t, fromLease)
				require.EqualExportedValues(t, redlock.LostError{Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token(), Reason: c.reason,
					Holder: c.holder, Votes: lost.Votes, Cause: lost.Cause}, *lost)
				require.Equal(t, c.votes, len(lost.Votes) == 3)
				if c.reason == redlock.LostNoQuorum {
					require.ErrorIs(t, lost.Cause, redlock.ErrNoQuorum)
				} else {
					require.NoError(t, lost.Cause)
				}
				require.ErrorContains(t, lost, c.text)
				for _, err := range []error{fromContext, fromUnlock, fromDo} {
					require.Same(t, lost, lossOf(t, err))
				}
				require.Same(t, lost, (<-events).Err)
				require.NoError(t, client.Close())
				if c.reason == redlock.LostMaxHold || c.opts != nil {
					require.NotContains(t, lines.String(), "level=ERROR", "its options asked for it")
					require.Contains(t, lines.String(), `has run out`)
				} else {
					require.Equal(t, 1, strings.Count(lines.String(), `level=ERROR msg="redlock: a lease is lost"`))
				}
				require.Contains(t, lines.String(), "holder="+slogText(c.holder)+" error=")
			})
		})
	}
}

// slogText returns a word as slog's TextHandler writes it.
func slogText(s string) string {
	if s == "" || strings.Contains(s, " ") {
		return strconv.Quote(s)
	}
	return s
}

func TestErrIsTheSameBeforeAndAfterTheRenewerFindsTheEnd(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		net.Clock.Sleep(time.Minute)
		before := lossOf(t, lease.Err())
		require.Empty(t, before.Votes)
		<-lease.Done()
		require.Same(t, before, lease.Err())
	})
}

// The answers to a renewal arrive when the validity is over: the client must not trust the
// lease then.
func TestLostErrorSaysThatTheRenewalWasGrantedTooLate(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(100*ms)).Mutex("x").Lock(t.Context()))
		synctest.Wait()
		begins, _ := testhook.Lease(lease).Schedule()
		net.Delay(20 * ms)
		time.Sleep(begins - net.Clock.Now() + 30*ms)
		net.Clock.Sleep(time.Minute) // while the renewal is on its way
		<-lease.Done()
		lost := lossOf(t, lease.Err())
		require.Equal(t, redlock.LostNoQuorum, lost.Reason)
		require.ErrorContains(t, lost, "no validity was left")
	})
}

// The renewal that runs when the validity ends has no answer yet: the error has the answers to the
// one before.
func TestLostErrorHasTheAnswersOfTheLastRenewalThatWasAnswered(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second)).Mutex("x").Lock(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Delay = 200 * ms
				n.Override = func(string, []string) string { return "NOPERM no" }
			})
		}
		<-lease.Done()
		lost := lossOf(t, lease.Err())
		require.Equal(t, redlock.LostNoQuorum, lost.Reason)
		require.ErrorContains(t, lost, "NOPERM no")
	})
}

func TestUnlockThatFindsNoKeyReturnsThatTheLeaseWasRevoked(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Mutex(net.Client(), "x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes.Drop(lease)
		lost := lossOf(t, lease.Unlock(t.Context()))
		require.Equal(t, redlock.LostError{Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token(), Reason: redlock.LostRevoked}, *lost)
	})
}

func TestFailedExtendIsTheCauseOfALossWithoutRenewal(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithoutRenewal()).Mutex("x").Lock(t.Context()))
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrNoQuorum)
		<-lease.Done()
		lost := lossOf(t, lease.Err())
		require.Equal(t, redlock.LostNoQuorum, lost.Reason)
		require.Len(t, lost.Votes, 3)
		require.ErrorContains(t, lost.Cause, `extend "x": no quorum`)
	})
}

func TestReasonsOfALossInWords(t *testing.T) {
	for reason, words := range map[redlock.LostReason]string{redlock.LostExpired: "expired", redlock.LostMaxHold: "max hold",
		redlock.LostRevoked: "revoked", redlock.LostNoQuorum: "no quorum", 7: "LostReason(7)"} {
		require.Equal(t, words, reason.String())
	}
	require.False(t, errors.Is(&redlock.LostError{}, redlock.ErrReleased))
	require.ErrorContains(t, &redlock.LostError{Name: "x", Reason: redlock.LostNoQuorum}, `redlock: the lease of "x" is lost: its renewals failed`)
}

// A Do runs under a lease, and releases it, also where the client closes meanwhile.

func TestDoRunsUnderALeaseAndReleasesIt(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second))
		m := net.Mutex(c, "x")
		failure := errors.New("fn's own")
		var inner context.Context
		err := m.Do(t.Context(), func(ctx context.Context, lease *redlock.Lease) error {
			inner = ctx
			time.Sleep(10 * time.Second)
			require.True(t, lease.Valid())
			require.NoError(t, ctx.Err())
			return failure
		})
		require.Equal(t, failure, err)
		require.Error(t, inner.Err())
		net.RequireNoKeys()

		require.PanicsWithValue(t, "fn's own", func() {
			_ = m.Do(t.Context(), func(context.Context, *redlock.Lease) error { panic("fn's own") })
		})
		net.RequireNoKeys()

		err = m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			for _, n := range net.Nodes {
				n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused })
				n.Cut()
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, redlock.ErrLost)
	})
}

func TestNestedLockOfTheSameNameFailsAtOnce(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		err := net.Mutex(c, "x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			took := testnet.Elapsed(func() {
				_, err := net.Mutex(c, "x").Lock(ctx)
				require.ErrorIs(t, err, redlock.ErrHeld)
				require.ErrorContains(t, err, "by this very caller")
				require.ErrorIs(t, net.Mutex(c, "x").Do(ctx, nil), redlock.ErrHeld)
				net.Held(net.Mutex(c, "x").TryLock(ctx))
			})
			require.Zero(t, took)
			return net.Mutex(c, "y").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
				require.ErrorIs(t, net.Mutex(c, "x").Do(ctx, nil), redlock.ErrHeld, "two levels up")
				_, err := net.Mutex(other, "z").TryLock(ctx)
				return err
			})
		})
		require.NoError(t, err)
	})
}

func TestCloseDoesNotReleaseALeaseUnderWhichADoRuns(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithTTL(3*time.Second)), net.Client()
		var inside atomic.Int32
		var running sync.Map
		for i := range 50 {
			name := string(rune('a' + i))
			go func() {
				_ = net.Mutex(a, name).Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
					running.Store(name, true)
					defer running.Store(name, false)
					inside.Add(1)
					defer inside.Add(-1)
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), redlock.ErrClosed)
					time.Sleep(rand.N(time.Second)) // it finishes, still under the lock
					return nil
				})
			}()
			go func() {
				time.Sleep(100 * ms)
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				require.NoError(t, b.Mutex(name).Do(ctx, func(context.Context, *redlock.Lease) error {
					still, _ := running.Load(name)
					require.NotEqual(t, true, still, "two holders of %s", name)
					return nil
				}))
			}()
		}
		time.Sleep(200 * ms)
		require.EqualValues(t, 50, inside.Load())
		took := testnet.Elapsed(func() { require.NoError(t, a.Close()) })
		require.LessOrEqual(t, took, testhook.Engine(a).NodeTimeout)
		time.Sleep(10 * time.Second)
		require.Zero(t, inside.Load())
		net.RequireNoKeys()
	})
}

func TestDoThatOutlivesCloseIsReleasedWhenItReturnsOrItsLeaseEnds(t *testing.T) {
	for name, c := range map[string]struct{ finish, freed time.Duration }{
		"returns": {100 * ms, 101 * ms},
		"hangs":   {time.Minute, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				a := net.Client()
				time.Sleep(time.Second)
				go func() {
					_ = net.Mutex(a, "x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
						<-ctx.Done()
						time.Sleep(c.finish)
						return nil
					})
				}()
				synctest.Wait()
				require.NoError(t, a.Close())
				require.NotNil(t, testhook.Engine(a).Cluster.Nodes()[0].Pipe(), "the release needs it")
				time.Sleep(c.freed)
				net.RequireNoKeys()
				require.Nil(t, testhook.Engine(a).Cluster.Nodes()[0].Pipe())
				time.Sleep(c.finish)
			})
		})
	}
}

func TestUnlockInADoThatOutlivesCloseIsTheOnlyRelease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		ended := make(chan error, 1)
		go func() {
			ended <- net.Mutex(c, "x").Do(t.Context(), func(ctx context.Context, lease *redlock.Lease) error {
				<-ctx.Done()
				require.NoError(t, lease.Unlock(ctx))
				require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		net.RequireNoKeys()
	})
}
