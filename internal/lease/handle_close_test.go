package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Close ends all handles of a lease, and the last Do under it releases it.

func TestCloseEndsEveryHandle(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithReentry())
		m := net.Mutex(c, "x")
		ctx, first, second := join(t, m)
		before, err := m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, before.Unlock(t.Context()))
		require.NoError(t, c.Close())
		net.RequireNoKeys()
		for _, l := range []*redlock.Lease{first, second} {
			<-l.Done()
			require.ErrorIs(t, l.Err(), redlock.ErrClosed)
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrClosed)
		}
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrClosed)
		requireReleased(t, before)
		_, err = m.Lock(context.WithoutCancel(ctx))
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, held := m.Held(ctx)
		require.False(t, held)
	})
}

// underDos closes a client whose lease three handles hold: those of a Do that goes on for outer after Close,
// of one for inner under it, and a third that is no Do's. It returns that one, and how long after Close the keys
// were gone.
func underDos(t *testing.T, net *testnet.Net, outer, inner time.Duration) (third *redlock.Lease, took time.Duration) {
	c := net.Client(redlock.WithReentry())
	m := net.Mutex(c, "x")
	work := func(ctx context.Context, d time.Duration) {
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), redlock.ErrClosed)
		time.Sleep(d)
	}
	go func() {
		_ = m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			lease, err := m.Lock(ctx)
			assert.NoError(t, err)
			third = lease
			go func() {
				_ = m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
					work(ctx, inner)
					return nil
				})
			}()
			work(ctx, outer)
			return nil
		})
	}()
	synctest.Wait()
	require.NoError(t, c.Close())
	return third, testnet.Elapsed(func() {
		for held(net, third) {
			time.Sleep(10 * ms)
		}
	})
}

// held reports whether a node has a key or a share of the lease.
func held(net *testnet.Net, l *redlock.Lease) bool { return net.Holders(l) > 0 }

func TestCloseLeavesTheReleaseToTheLastDo(t *testing.T) {
	for name, c := range map[string]struct{ outer, inner, freed time.Duration }{
		"the outer one":         {outer: 2 * time.Second, inner: time.Second, freed: 2 * time.Second},
		"the inner one":         {outer: time.Second, inner: 2 * time.Second, freed: 2 * time.Second},
		"the validity is first": {outer: time.Second, inner: time.Minute, freed: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				third, took := underDos(t, net, c.outer, c.inner)
				require.InDelta(t, c.freed, took, float64(20*ms))
				require.ErrorIs(t, third.Err(), redlock.ErrClosed)
				time.Sleep(c.inner)
				net.RequireNoKeys()
			})
		})
	}
}

// The lease was granted to a caller that runs no Do, or whose Do has returned.
func TestCloseLeavesTheReleaseToADoThatJoined(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithReentry())
		m := net.Mutex(c, "x")
		ctx, first, second := join(t, m)
		go func() {
			_ = m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, second.Unlock(t.Context()))
		require.NoError(t, c.Close())
		require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrClosed)
		time.Sleep(900 * ms)
		require.True(t, held(net, first))
		time.Sleep(200 * ms)
		net.RequireNoKeys()
	})
}

// A Do whose handle was unlocked before Close no longer holds the lock.
func TestCloseDoesNotAwaitADoWhoseHandleIsUnlocked(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithReentry())
		m := net.Mutex(c, "x")
		second := make(chan *redlock.Lease, 1)
		go func() {
			_ = m.Do(t.Context(), func(ctx context.Context, first *redlock.Lease) error {
				lease, err := m.Lock(ctx)
				assert.NoError(t, err)
				second <- lease
				assert.NoError(t, first.Unlock(ctx))
				time.Sleep(time.Minute)
				return nil
			})
		}()
		lease := <-second
		synctest.Wait()
		require.NoError(t, lease.Err())
		require.NoError(t, c.Close())
		require.False(t, held(net, lease))
		time.Sleep(time.Minute)
	})
}
