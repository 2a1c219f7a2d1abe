package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
				_, err = net.Mutex(c, "x").TryLock(ctx)
				require.ErrorIs(t, err, redlock.ErrHeld)
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
				require.NotNil(t, testhook.Engine(a).Cluster.Nodes[0].Pipe(), "the release needs it")
				time.Sleep(c.freed)
				net.RequireNoKeys()
				require.Nil(t, testhook.Engine(a).Cluster.Nodes[0].Pipe())
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
