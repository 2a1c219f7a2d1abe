package redlock

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Leases renew, heal and end on time.

func TestALeaseOutlastsItsTTLWhileAMinorityFails(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		const ttl = 3 * time.Second
		c := net.client(WithTTL(ttl))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		done := lease.Done()
		for range 20 {
			away := net.nodes[rand.N(5)]
			also := net.nodes[rand.N(5)]
			down := func(n *testNode) { n.set(func(n *testNode) { n.refusing = errRefused }); n.cut() }
			for _, n := range []*testNode{away, also} {
				[]func(*testNode){(*testNode).freeze, (*testNode).mute, down, func(n *testNode) { n.redis.FlushAll() }}[rand.N(4)](n)
			}
			time.Sleep(rand.N(2 * ttl))
			for _, n := range []*testNode{away, also} {
				n.set(func(n *testNode) { n.holding, n.muting, n.refusing = false, false, nil })
			}
			// Reconnected, and one renewal later.
			time.Sleep(time.Second + ttl/3 + c.opts.voteTimeout())
			require.Equal(t, 5, net.holders(lease), "the key is back at every node")
			select {
			case <-done:
				t.Fatal(lease.Err())
			default:
			}
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestAHolderThatIsCutOffStopsBeforeItsKeysExpire(t *testing.T) {
	t.Parallel()
	cuts := map[string]func(n *testNode){
		"cut": func(n *testNode) { n.set(func(n *testNode) { n.refusing = errRefused }); n.cut() },
		// Requests are executed, answers never come.
		"answers lost": func(n *testNode) { n.set(func(n *testNode) { n.muting, n.refusing = true, errRefused }) },
		"frozen link":  (*testNode).freeze,
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			for range tries(15, 350) {
				inBubble(t, 5, func(t *testing.T, net *testNet) {
					const ttl = 2 * time.Second
					c := net.client(WithTTL(ttl))
					for _, n := range net.nodes {
						n.set(func(n *testNode) { n.delay = rand.N(40 * ms) })
					}
					lease, err := c.Mutex("x").Lock(t.Context())
					require.NoError(t, err)
					ctx, cancel := lease.Context(t.Context())
					defer cancel()
					time.Sleep(rand.N(3 * ttl))
					for _, n := range net.nodes {
						cut(n)
						time.Sleep(rand.N(10 * ms))
					}
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), ErrLost)
					require.ErrorIs(t, lease.Err(), ErrLost)
					<-lease.Done()
					have := 0
					for _, n := range net.nodes {
						if v, _ := n.redis.Get("redlock:x"); v == lease.Owner() {
							have++
						}
					}
					require.GreaterOrEqual(t, have, 3, "nobody else can have a quorum yet")
				})
			}
		})
	}
}

func TestALeaseTakenAwayAtAQuorumEndsAtTheNextRenewal(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(WithTTL(3*time.Second)), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.nodes[:3] {
			n.redis.Del("redlock:x")
		}
		// Somebody else locks where it is free, and goes again.
		b.Mutex("x").newAttempt("them", nil).Send(0, true)
		synctest.Wait()
		b.Mutex("x").undo("them", 0b11111, nil, false)
		took := elapsed(func() { <-lease.Done() })
		require.LessOrEqual(t, took, a.opts.renewal()+ms)
		require.ErrorIs(t, lease.Err(), ErrLost)
		net.requireNoKeys()
	})
}

func TestUnlockAtAnyInstantOfTheKeepersRenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(time.Second))
		for i, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = time.Duration(i+1) * 3 * ms })
		}
		for range tries(300, 10_000) {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(c.opts.renewal() - rand.N(c.opts.renewal()/3) + rand.N(30*ms))
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(20 * ms)
			net.requireNoKeys()
		}
	})
}

func TestDangerIsToldWhileTheLeaseIsStillValid(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var dangers []LeaseDanger
		c := net.client(WithTTL(3*time.Second), WithTrace(&Trace{LeaseDanger: func(d LeaseDanger) { dangers = append(dangers, d) }}))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[0].freeze()
		net.nodes[1].freeze()
		<-lease.Done()
		synctest.Wait()
		require.GreaterOrEqual(t, len(dangers), 3, "it was tried again and again")
		first := dangers[0]
		require.Equal(t, "x", first.Name)
		require.Equal(t, lease.Owner(), first.Owner)
		require.Greater(t, first.Remaining, time.Second)
		require.ErrorIs(t, first.Err, ErrNoQuorum)
		for i := 1; i < len(dangers); i++ {
			require.Less(t, dangers[i].Remaining, dangers[i-1].Remaining)
			require.Positive(t, dangers[i].Remaining)
		}
	})
}

func TestMaxHoldEndsALeaseThatRenews(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(time.Second))
		lease, err := c.Mutex("x", WithMaxHold(5*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, elapsed(func() { <-lease.Done() }))
		require.ErrorIs(t, lease.Extend(t.Context()), ErrLost)
		net.requireNoKeys()

		short, err := c.Mutex("x", WithMaxHold(100*ms)).Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100*ms, elapsed(func() { <-short.Done() }))

		endless, err := c.Mutex("x", WithMaxHold(math.MaxInt64)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, endless.Err())
		require.Less(t, endless.Remaining(), time.Second)
		require.NoError(t, endless.Unlock(t.Context()))
	})
}

func TestDoRunsUnderALeaseAndReleasesIt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(time.Second))
		m := c.Mutex("x")
		failure := errors.New("fn's own")
		var inner context.Context
		err := m.Do(t.Context(), func(ctx context.Context, lease *Lease) error {
			inner = ctx
			time.Sleep(10 * time.Second)
			require.True(t, lease.Valid())
			require.NoError(t, ctx.Err())
			return failure
		})
		require.Equal(t, failure, err)
		require.Error(t, inner.Err())
		net.requireNoKeys()

		require.PanicsWithValue(t, "fn's own", func() {
			_ = m.Do(t.Context(), func(context.Context, *Lease) error { panic("fn's own") })
		})
		net.requireNoKeys()

		err = m.Do(t.Context(), func(ctx context.Context, _ *Lease) error {
			for _, n := range net.nodes {
				n.set(func(n *testNode) { n.refusing = errRefused })
				n.cut()
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, ErrLost)
	})
}

func TestANestedLockOfTheSameNameFailsAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c, other := net.client(), net.client()
		err := c.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *Lease) error {
			took := elapsed(func() {
				_, err := c.Mutex("x").Lock(ctx)
				require.ErrorIs(t, err, ErrHeld)
				require.ErrorContains(t, err, "by this very caller")
				require.ErrorIs(t, c.Mutex("x").Do(ctx, nil), ErrHeld)
				_, err = c.Mutex("x").TryLock(ctx)
				require.ErrorIs(t, err, ErrHeld)
			})
			require.Zero(t, took)
			return c.Mutex("y").Do(ctx, func(ctx context.Context, _ *Lease) error {
				require.ErrorIs(t, c.Mutex("x").Do(ctx, nil), ErrHeld, "two levels up")
				_, err := other.Mutex("z").TryLock(ctx)
				return err
			})
		})
		require.NoError(t, err)
	})
}

func TestCloseWhileDoIsRunningLetsNobodyIn(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(WithTTL(3*time.Second)), net.client()
		var inside atomic.Int32
		var running sync.Map
		for i := range 50 {
			name := string(rune('a' + i))
			go func() {
				_ = a.Mutex(name).Do(t.Context(), func(ctx context.Context, _ *Lease) error {
					running.Store(name, true)
					defer running.Store(name, false)
					inside.Add(1)
					defer inside.Add(-1)
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), ErrClosed)
					time.Sleep(rand.N(time.Second)) // tidying up, still under the lock
					return nil
				})
			}()
			go func() {
				time.Sleep(100 * ms)
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				require.NoError(t, b.Mutex(name).Do(ctx, func(context.Context, *Lease) error {
					still, _ := running.Load(name)
					require.NotEqual(t, true, still, "two holders of %s", name)
					return nil
				}))
			}()
		}
		time.Sleep(200 * ms)
		require.EqualValues(t, 50, inside.Load())
		took := elapsed(func() { require.NoError(t, a.Close()) })
		require.LessOrEqual(t, took, a.opts.voteTimeout())
		time.Sleep(10 * time.Second)
		require.Zero(t, inside.Load())
		net.requireNoKeys()
	})
}

// The garbage collector does not run on virtual time, so this one does not.
func TestADroppedLeaseIsReleased(t *testing.T) {
	net := &testNet{t: t, clock: &testClock{origin: time.Now()}}
	for i := range 3 {
		net.nodes = append(net.nodes, newTestNode(t, i))
	}
	defer net.stop()
	c := net.client(WithTTL(3 * time.Second))
	done := make(chan (<-chan struct{}), 1)
	func() {
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		done <- lease.Done()
	}()
	kept, err := c.Mutex("kept").Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := kept.Context(t.Context())
	defer cancel()
	kept = nil
	end := <-done
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-end:
			return true
		default:
			return false
		}
	}, 20*time.Second, 10*ms)
	require.NoError(t, ctx.Err(), "a context derived from a lease keeps it alive")
}
