package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What a caller may ask for under the lease that its context carries.

type mutexOf = func(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex

func alone(name string) mutexOf {
	return func(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex { return c.Mutex(name, opts...) }
}

func share(name string) mutexOf {
	return func(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex {
		return c.RWMutex(name, opts...).RLocker()
	}
}

func several(names ...string) mutexOf {
	return func(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex { return c.Multi(names, opts...) }
}

const (
	joins       = "joins"
	independent = "independent" // a lease of its own
	upgrade     = "unlock the share first"
	notAll      = "not all of its names"
)

var matrix = map[string]struct {
	held       mutexOf
	downgraded bool
	asked      mutexOf
	want       string // joins, independent, or the text of ErrHeld
}{
	"alone, alone":              {held: alone("a"), asked: alone("a"), want: joins},
	"alone, share":              {held: alone("a"), asked: share("a"), want: joins},
	"share, share":              {held: share("a"), asked: share("a"), want: joins},
	"share, alone":              {held: share("a"), asked: alone("a"), want: upgrade},
	"share, several":            {held: share("a"), asked: several("a", "b"), want: upgrade},
	"downgraded, share":         {held: alone("a"), downgraded: true, asked: share("a"), want: joins},
	"downgraded, alone":         {held: alone("a"), downgraded: true, asked: alone("a"), want: upgrade},
	"several, one of them":      {held: several("a", "b"), asked: alone("a"), want: joins},
	"several, share of one":     {held: several("a", "b"), asked: share("b"), want: joins},
	"several, all":              {held: several("a", "b"), asked: several("b", "a"), want: joins},
	"several, some":             {held: several("a", "b", "c"), asked: several("c", "a"), want: joins},
	"several, some and others":  {held: several("a", "b"), asked: several("b", "c"), want: notAll},
	"several, more":             {held: several("a", "b"), asked: several("a", "b", "c"), want: notAll},
	"alone, several":            {held: alone("a"), asked: several("a", "b"), want: notAll},
	"alone, several of one":     {held: alone("a"), asked: several("a"), want: joins},
	"another name":              {held: alone("a"), asked: alone("b"), want: independent},
	"several, another name":     {held: several("a", "b"), asked: alone("c"), want: independent},
	"several, others":           {held: several("a", "b"), asked: several("c", "d"), want: independent},
	"a name with its separator": {held: several("a", "b"), asked: alone("a, b"), want: independent},
	"another prefix": {held: alone("a"), want: independent, asked: func(c *redlock.Client, opts ...redlock.LockOption) *redlock.Mutex {
		return c.Mutex("a", append(opts, redlock.WithPrefix("other:"))...)
	}},
}

func TestWhatJoinsAHeldLease(t *testing.T) {
	for name, c := range matrix {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				client := net.Client()
				outer := net.Must(c.held(client).Lock(t.Context()))
				if c.downgraded {
					require.NoError(t, outer.Downgrade(t.Context()))
				}
				ctx, cancel := outer.Context(t.Context())
				defer cancel()
				found, held := c.asked(client).Held(ctx)
				require.Equal(t, c.want == joins, held)
				if held {
					require.Same(t, outer, found)
				}
				for _, reentry := range []bool{false, true} {
					opts := []redlock.LockOption{}
					if reentry {
						opts = append(opts, redlock.WithReentry())
					}
					requireOutcome(t, ctx, outer, c.asked(client, opts...), c.want, reentry)
				}
				require.NoError(t, outer.Unlock(t.Context()))
				net.RequireNoKeys()
			})
		})
	}
}

// requireOutcome asks for the lock in each way, under the context of outer.
func requireOutcome(t *testing.T, ctx context.Context, outer *redlock.Lease, m *redlock.Mutex, want string, reentry bool) {
	t.Helper()
	ask := map[string]func(func(*redlock.Lease)) error{
		"Do": func(then func(*redlock.Lease)) error {
			return m.Do(ctx, func(_ context.Context, l *redlock.Lease) error { then(l); return nil })
		},
	}
	for name, lock := range map[string]func(context.Context) (*redlock.Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
		ask[name] = func(then func(*redlock.Lease)) error {
			l, err := lock(ctx)
			if err == nil {
				then(l)
				err = l.Unlock(ctx)
			}
			return err
		}
	}
	for name, call := range ask {
		var got *redlock.Lease
		var shared bool
		err := call(func(l *redlock.Lease) { got, shared = l, l.Shared() })
		switch {
		case want == independent:
			require.NoError(t, err, name)
			require.NotEqual(t, outer.Owner(), got.Owner())
		case want == joins && reentry:
			require.NoError(t, err, name)
			require.NotSame(t, outer, got)
			require.Equal(t, outer.Owner(), got.Owner())
			require.Equal(t, outer.Names(), got.Names())
			require.Equal(t, outer.Shared(), shared)
		default:
			require.ErrorIs(t, err, redlock.ErrHeld, name)
			require.ErrorContains(t, err, "by this very caller")
			require.Nil(t, got)
			if want != joins {
				require.ErrorContains(t, err, want)
			}
		}
		require.NoError(t, outer.Err(), name)
	}
}

func TestLeaseOfAnotherClientIsNotJoined(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithReentry()), net.Client(redlock.WithReentry())
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		_, held := net.Mutex(b, "x").Held(ctx)
		require.False(t, held)
		_, err := net.Mutex(b, "x").TryLock(ctx)
		var refused *redlock.HeldError
		require.ErrorAs(t, err, &refused, "it asked the nodes")
		require.Equal(t, lease.Owner(), refused.Holder)
	})
}

func TestTheInnermostLeaseIsJoinedAndFound(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry()), "x")
		_, held := m.Held(t.Context())
		require.False(t, held)
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, outer *redlock.Lease) error {
			require.NoError(t, m.Do(ctx, func(ctx context.Context, inner *redlock.Lease) error {
				found, held := m.Held(ctx)
				require.True(t, held)
				require.Same(t, inner, found)
				require.NoError(t, inner.Unlock(ctx))
				found, held = m.Held(ctx)
				require.True(t, held)
				require.Same(t, outer, found, "the inner one is unlocked")
				last := net.Must(m.Lock(context.WithoutCancel(ctx)))
				require.Equal(t, outer.Owner(), last.Owner())
				return last.Unlock(ctx)
			}))
			return outer.Err()
		}))
		net.RequireNoKeys()
	})
}

func TestBadSettingsAreReportedUnderAHeldLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithReentry())
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		for _, bad := range []*redlock.Mutex{c.Mutex("x", redlock.WithTTL(-1)), c.Multi(nil), c.Multi([]string{"x", "x"})} {
			_, held := bad.Held(ctx)
			require.False(t, held)
			_, err := bad.Lock(ctx)
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
	})
}

// The lease ends after the caller has found it, and before it joins.
func TestHandleThatHasEndedIsNotJoined(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry()), "x")
		_, first, second := join(t, m)
		var late lease.Handle
		require.NoError(t, first.Unlock(t.Context()))
		require.ErrorIs(t, late.Join(testhook.Handle(first), false, nil).Err, redlock.ErrReleased)
		net.Clock.Sleep(time.Minute)
		require.ErrorIs(t, late.Join(testhook.Handle(second), false, nil).Err, redlock.ErrLost)
		require.ErrorIs(t, second.Unlock(t.Context()), redlock.ErrLost)
	})
}

func TestPermitsAreNotJoined(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		permits := net.Client(redlock.WithReentry()).Semaphore("x", 2)
		first := net.Must(permits.Acquire(t.Context(), 1))
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		second := net.Must(permits.Acquire(ctx, 1))
		require.NotEqual(t, first.Owner(), second.Owner())
		require.NotEqual(t, first.Slots()[0], second.Slots()[0])
		require.NoError(t, first.Unlock(t.Context()))
		require.NoError(t, second.Unlock(t.Context()))
	})
}

// A last handle that is dropped counts as unlocked here, too.
func TestLockRestsAfterTheLastUnlock(t *testing.T) {
	for name, release := range map[string]func(t *testing.T, l *redlock.Lease){
		"unlocked": func(t *testing.T, l *redlock.Lease) { require.NoError(t, l.Unlock(t.Context())) },
		"dropped":  func(_ *testing.T, l *redlock.Lease) { testhook.Handle(l).Drop() },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client(redlock.WithReentry())
				m := c.Mutex("x", redlock.WithMinHold(5*time.Second))
				_, first, second := join(t, m)
				require.NoError(t, first.Unlock(t.Context()))
				time.Sleep(time.Second)
				require.Equal(t, 3, net.Holders(second))
				release(t, second)
				synctest.Wait()
				require.Zero(t, net.Holders(second))
				_, err := c.Mutex("x").TryLock(t.Context())
				require.ErrorIs(t, err, redlock.ErrHeld, "it rests")
				time.Sleep(5 * time.Second)
				net.RequireNoKeys()
			})
		})
	}
}
