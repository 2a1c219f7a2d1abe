package lease_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Several handles hold one lease.

// join acquires the lock, and then joins the lease. ctx carries the first of the two handles.
func join(t *testing.T, m *redlock.Mutex) (ctx context.Context, first, second *redlock.Lease) {
	t.Helper()
	first, err := m.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := first.Context(t.Context())
	t.Cleanup(cancel)
	second, err = m.Lock(ctx)
	require.NoError(t, err)
	require.NotSame(t, first, second)
	synctest.Wait() // all nodes have granted it
	return ctx, first, second
}

func requireReleased(t *testing.T, l *redlock.Lease) {
	t.Helper()
	<-l.Done()
	require.ErrorIs(t, l.Err(), redlock.ErrReleased)
	require.False(t, l.Valid())
	require.Zero(t, l.Remaining())
	require.ErrorIs(t, l.Extend(t.Context()), redlock.ErrReleased)
	require.ErrorIs(t, l.ExtendTo(t.Context(), 10*time.Second), redlock.ErrReleased)
	require.NoError(t, l.Unlock(t.Context()), "once more")
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
}

func TestJoiningALeaseAsksNoNode(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithReentry(), redlock.WithTrace(tape.Trace()))
		m := net.Mutex(c, "x")
		first := net.Must(m.Lock(t.Context()))
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		tape.Clear()
		commands := len(net.Nodes[0].Log)
		took := testnet.Elapsed(func() {
			second := net.Must(net.Mutex(c, "x", redlock.WithTTL(time.Minute), redlock.WithMaxHold(time.Second)).TryLock(ctx))
			require.Equal(t, first.Owner(), second.Owner())
			require.Equal(t, first.Token(), second.Token())
			require.Equal(t, first.Names(), second.Names())
			require.Equal(t, first.Shared(), second.Shared())
			require.Equal(t, first.Until(), second.Until(), "the inner call's options are not used")
			require.NoError(t, second.Unlock(t.Context()))
		})
		require.Zero(t, took)
		op := "trylock"
		if first.Shared() {
			op = "tryrlock"
		}
		require.Equal(t, []string{"CallStart " + op, "CallEnd " + op, "CallStart unlock", "CallEnd unlock"}, tape.Story())
		require.Equal(t, first.Owner(), testnet.Told[testnet.CallEnd](&tape)[0].Owner)
		require.Len(t, net.Nodes[0].Log, commands)
		stats := c.Stats()
		require.Equal(t, []uint64{1, 0}, []uint64{stats.Acquired, stats.Released})
		require.Equal(t, 1, stats.Leases)
		require.NoError(t, first.Unlock(t.Context()))
		require.EqualValues(t, 1, c.Stats().Released)
	})
}

func TestLeaseIsReleasedWithItsLastHandle(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry(), redlock.WithTTL(3*time.Second)), "x")
		for _, firstEndsFirst := range []bool{true, false} {
			_, inner, outer := join(t, m)
			if firstEndsFirst {
				inner, outer = outer, inner
			}
			releases := net.Nodes[0].Releases()
			ended := inner.Done()
			ctx, cancel := inner.Context(t.Context())
			defer cancel()
			going, stop := outer.Context(t.Context())
			defer stop()
			require.Zero(t, testnet.Elapsed(func() { require.NoError(t, inner.Unlock(t.Context())) }))
			<-ended
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
			requireReleased(t, inner)
			time.Sleep(time.Minute)
			require.NoError(t, outer.Err(), "it goes on, and renews itself")
			require.NoError(t, going.Err())
			require.Equal(t, 3, net.Holders(outer))
			require.Equal(t, releases, net.Nodes[0].Releases())
			require.NoError(t, outer.Unlock(t.Context()))
			requireReleased(t, outer)
			requireReleased(t, inner)
			net.RequireNoKeys()
			require.Equal(t, releases+1, net.Nodes[0].Releases())
		}
	})
}

func TestContextOfAReleasedHandleJoinsNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry()), "x")
		ctx, first, second := join(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, redlock.ErrReleased, "it is cancelled")
		_, held := m.Held(ctx)
		require.False(t, held)
		other, err := m.TryLock(context.WithoutCancel(ctx))
		if net.Kind == testnet.Shared {
			require.NoError(t, err)
			require.NotEqual(t, second.Owner(), other.Owner(), "a share of its own")
			require.NoError(t, other.Unlock(t.Context()))
		} else {
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		require.NoError(t, second.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestGoroutineThatOutlivesItsDoKeepsTheLock(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithReentry()), net.Client()
		m := net.Mutex(a, "x")
		inner := make(chan *redlock.Lease, 1)
		ended := make(chan error, 1)
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			lease, err := m.Lock(ctx)
			inner <- lease
			go func() {
				ended <- m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
					<-ctx.Done()
					time.Sleep(time.Minute)
					return nil
				})
			}()
			synctest.Wait()
			return err
		}))
		require.NoError(t, (<-inner).Unlock(t.Context()))
		for range 50 {
			net.Held(b.Mutex("x").TryLock(t.Context()))
			time.Sleep(time.Second)
		}
		require.NoError(t, <-ended)
		net.RequireNoKeys()
	})
}

func TestEveryHandleSeesTheLoss(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry(), redlock.WithTTL(3*time.Second)), "x")
		ctx, first, second := join(t, m)
		before := net.Must(m.Lock(ctx))
		require.NoError(t, before.Unlock(t.Context()))
		fromDo := m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
			net.Nodes.Drop(first)
			<-ctx.Done()
			lossOf(t, context.Cause(ctx))
			return nil
		})
		lost := lossOf(t, fromDo)
		for _, l := range []*redlock.Lease{first, second} {
			<-l.Done()
			require.Same(t, lost, lossOf(t, l.Err()))
			require.Same(t, lost, lossOf(t, l.Unlock(t.Context())))
			require.Same(t, lost, lossOf(t, l.Extend(t.Context())))
		}
		require.Same(t, lost, lossOf(t, context.Cause(ctx)))
		requireReleased(t, before)
		_, held := m.Held(ctx)
		require.False(t, held)
	})
}

func TestExtendThroughAHandleProlongsTheLeaseForAll(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry(), redlock.WithoutRenewal()), "x")
		_, first, second := join(t, m)
		time.Sleep(5 * time.Second)
		before := first.Remaining()
		require.NoError(t, second.Extend(t.Context()))
		require.Equal(t, before+5*time.Second, first.Remaining())
		require.Equal(t, first.Remaining(), second.Remaining())
		require.NoError(t, first.Unlock(t.Context()))
		took := testnet.Elapsed(func() { <-second.Done() })
		require.Equal(t, before+5*time.Second, took)
		require.ErrorIs(t, second.Unlock(t.Context()), redlock.ErrLost)
		requireReleased(t, first)
	})
}

func TestDowngradeThroughAHandleMakesAShareForAll(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lock := net.Client(redlock.WithReentry()).RWMutex("x")
		first := net.Must(lock.Lock(t.Context()))
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		second := net.Must(lock.RLock(ctx))
		require.False(t, second.Shared(), "it is the lease that holds the lock alone")
		require.NoError(t, second.Downgrade(t.Context()))
		require.True(t, first.Shared())
		net.Held(lock.TryLock(ctx))
		require.NoError(t, first.Unlock(t.Context()))
		require.ErrorIs(t, first.Downgrade(t.Context()), redlock.ErrReleased)
		require.Equal(t, 3, net.Holders(second))
		require.NoError(t, second.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A release that races with a caller that joins ends the lease before, or leaves it to that caller.
func TestHandlesMayBeUnlockedAndJoinedAtTheSameInstant(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Mutex(net.Client(redlock.WithReentry()), "x")
		for range testnet.Tries(50, 500) {
			ctx, first, second := join(t, m)
			ctx = context.WithoutCancel(ctx)
			handles := []*redlock.Lease{first, second}
			for range 4 {
				l := net.Must(m.Lock(ctx))
				handles = append(handles, l)
			}
			releases := net.Nodes[0].Releases()
			var all sync.WaitGroup
			for _, l := range append(handles, handles...) {
				all.Go(func() { assert.NoError(t, l.Unlock(t.Context())) })
			}
			again := false
			all.Go(func() {
				l, err := m.Lock(ctx)
				if assert.NoError(t, err) {
					again = l.Owner() != first.Owner() // it came too late, and got a lease of its own
					runtime.Gosched()
					assert.NoError(t, l.Err(), "until its own Unlock")
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
			all.Wait()
			net.RequireNoKeys()
			want := releases + 1
			if again {
				want++
			}
			require.GreaterOrEqual(t, net.Nodes[0].Releases(), want)
			require.LessOrEqual(t, net.Nodes[0].Releases(), want+1, "refused attempts are rolled back")
		}
	})
}

func TestDroppedHandleCountsAsUnlocked(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithReentry(), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		logged := func(text string) int {
			synctest.Wait()
			return strings.Count(lines.String(), text)
		}
		const goesOn, released = "dropped without Unlock; other callers hold it", "dropped without Unlock; it is released now"
		_, first, second := join(t, net.Mutex(c, "x"))
		testhook.Handle(second).Drop()
		require.Equal(t, 1, logged(goesOn))
		requireReleased(t, second)
		testhook.Handle(second).Drop()
		require.Equal(t, 1, logged(goesOn), "it was released before")
		require.Equal(t, 3, net.Holders(first))
		testhook.Handle(first).Drop()
		require.Equal(t, 1, logged(released))
		net.RequireNoKeys()

		_, first, second = join(t, net.Mutex(c, "x"))
		testhook.Handle(first).Drop()
		require.Equal(t, 2, logged(goesOn))
		require.Equal(t, 3, net.Holders(second))
		require.NoError(t, second.Unlock(t.Context()))
		testhook.Handle(second).Drop()
		require.Equal(t, 1, logged(released))
		net.RequireNoKeys()
	})
}

func TestHandleThatNobodyRefersToIsCollected(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	var lines testnet.Journal
	c := net.Client(redlock.WithReentry(), redlock.WithRenewEvery(10*ms), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	m := net.Mutex(c, "x")
	collected := func(text string) {
		require.Eventually(t, func() bool {
			runtime.GC()
			return strings.Contains(lines.String(), text)
		}, 20*time.Second, 10*ms)
	}
	first, err := m.Lock(t.Context())
	require.NoError(t, err)
	func() {
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		_, err := m.Lock(ctx)
		require.NoError(t, err)
	}()
	collected("dropped without Unlock; other callers hold it")
	require.NoError(t, first.Err())
	done := first.Done()
	first = nil
	collected("dropped without Unlock; it is released now")
	<-done
}

// Close ends all handles of a lease, and the last Do under it releases it.

func TestCloseEndsEveryHandle(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithReentry())
		m := net.Mutex(c, "x")
		ctx, first, second := join(t, m)
		before := net.Must(m.Lock(ctx))
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
		_, err := m.Lock(context.WithoutCancel(ctx))
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
