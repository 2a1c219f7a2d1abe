package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func never(context.Context, *redlock.Lease) error { panic("the lock is held") }

// waits are the calls that WithWait bounds.
func waits(c *redlock.Client, opts ...redlock.LockOption) map[string]func(context.Context) error {
	lock := func(_ *redlock.Lease, err error) error { return err }
	m, rw, several, permits := c.Mutex("x", opts...), c.RWMutex("x", opts...), c.Multi([]string{"x", "y"}, opts...), c.Semaphore("s", 1, opts...)
	return map[string]func(context.Context) error{
		"Mutex.Lock":        func(ctx context.Context) error { return lock(m.Lock(ctx)) },
		"Mutex.Do":          func(ctx context.Context) error { return m.Do(ctx, never) },
		"RWMutex.Lock":      func(ctx context.Context) error { return lock(rw.Lock(ctx)) },
		"RWMutex.Do":        func(ctx context.Context) error { return rw.Do(ctx, never) },
		"RWMutex.RLock":     func(ctx context.Context) error { return lock(rw.RLock(ctx)) },
		"RWMutex.RDo":       func(ctx context.Context) error { return rw.RDo(ctx, never) },
		"RLocker.Lock":      func(ctx context.Context) error { return lock(rw.RLocker().Lock(ctx)) },
		"Multi.Lock":        func(ctx context.Context) error { return lock(several.Lock(ctx)) },
		"Semaphore.Acquire": func(ctx context.Context) error { return lock(permits.Acquire(ctx, 1)) },
		"Semaphore.Do":      func(ctx context.Context) error { return permits.Do(ctx, 1, never) },
	}
}

// holdAll has a client hold what the calls of waits wait for, until release.
func holdAll(t *testing.T, c *redlock.Client) (release func()) {
	x, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	s, err := c.Semaphore("s", 1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	synctest.Wait() // at all nodes
	return func() {
		require.NoError(t, x.Unlock(t.Context()))
		require.NoError(t, s.Unlock(t.Context()))
	}
}

func TestWaitOfALockEndsAfterItsTime(t *testing.T) {
	backoff := redlock.WithBackoff(func(int) time.Duration { return 70 * ms })
	for name, more := range map[string]redlock.Option{"queue": redlock.WithTTL(10 * time.Second), "back-off": backoff, "re-entry": redlock.WithReentry(), "wanted": redlock.WithWanted()} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			holder, c := net.Client(), net.Client()
			release := holdAll(t, holder)
			for call, lock := range waits(c, more, redlock.WithWait(300*ms)) {
				if name == "wanted" && (call == "Semaphore.Acquire" || call == "Semaphore.Do") {
					continue // ErrConfig
				}
				var err error
				took := testnet.Elapsed(func() { err = lock(t.Context()) })
				require.Equal(t, 300*ms, took, "%s, %s", call, name)
				require.ErrorIs(t, err, context.DeadlineExceeded, call)
				require.ErrorIs(t, err, redlock.ErrHeld, call)
				var refusal *redlock.HeldError
				require.ErrorAs(t, err, &refusal, call)
				require.ErrorContains(t, err, ": not acquired within 300ms (WithWait); last attempt: lock ", call)
				require.NotContains(t, err.Error(), context.DeadlineExceeded.Error(), call)
				net.RequireNoTraces()
				require.Zero(t, c.Stats().Waiting, call)
			}
			release()
			free, err := c.Mutex("x").TryLock(t.Context())
			require.NoError(t, err, "no waiter is awaited")
			require.NoError(t, free.Unlock(t.Context()))
		})
	}
}

func TestWaitEndsWithTheLastRefusalOfNodesThatDoNotAnswer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithWait(2 * time.Second)) // the default of the client's locks
		twoDown(net)
		for name, call := range waits(c) {
			var err error
			require.Equal(t, 2*time.Second, testnet.Elapsed(func() { err = call(t.Context()) }), name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
			require.ErrorContains(t, err, "not acquired within 2s (WithWait); last attempt: lock ", name)
		}
		took := testnet.Elapsed(func() { _, _ = c.Mutex("x", redlock.WithWait(time.Second)).Lock(t.Context()) })
		require.Equal(t, time.Second, took, "a lock's own wait overrides the client's")
	})
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes.Set(func(n *testnet.Node) { n.Holding = true })
		_, err := net.NewClient().Mutex("x", redlock.WithWait(300*ms)).Lock(t.Context())
		require.EqualError(t, err, `redlock: lock "x": not acquired within 300ms (WithWait)`, "no attempt was over")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWaitDoesNotBoundTheWork(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		ctx := context.WithValue(t.Context(), userKey{}, "the caller's")
		worked := 0
		work := func(inner context.Context, lease *redlock.Lease) error {
			_, bounded := inner.Deadline()
			require.False(t, bounded)
			require.Equal(t, "the caller's", inner.Value(userKey{}))
			time.Sleep(time.Second)
			worked++
			require.NoError(t, inner.Err())
			require.True(t, lease.Valid())
			found, ok := c.Mutex("x").Held(inner)
			require.Equal(t, lease.Name() == "x" && !lease.Shared(), ok)
			if ok {
				require.Equal(t, lease, found)
			}
			return nil
		}
		opt := redlock.WithWait(300 * ms)
		for _, do := range []func() error{
			func() error { return c.Mutex("x", opt).Do(ctx, work) },
			func() error { return c.RWMutex("x", opt).Do(ctx, work) },
			func() error { return c.RWMutex("x", opt).RDo(ctx, work) },
			func() error { return c.Semaphore("s", 1, opt).Do(ctx, 1, work) },
		} {
			require.NoError(t, do(), "it is free")
			time.AfterFunc(200*ms, holdAll(t, holder))
			require.NoError(t, do(), "it waits for 200 ms")
		}
		require.Equal(t, 8, worked)
	})
}

func TestWaitOfReentryIsThatOfTheLockItself(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client().Mutex("x", redlock.WithWait(300*ms), redlock.WithReentry())
		err := m.Do(t.Context(), func(ctx context.Context, outer *redlock.Lease) error {
			time.Sleep(time.Second)
			return m.Do(ctx, func(ctx context.Context, inner *redlock.Lease) error {
				time.Sleep(time.Second)
				require.Equal(t, outer.Token(), inner.Token())
				return ctx.Err()
			})
		})
		require.NoError(t, err)
	})
}

func TestCallsThatDoNotWaitIgnoreTheWait(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client(redlock.WithWait(time.Nanosecond))
		passed := net.Must(holder.Mutex("passed").Lock(t.Context()))
		text := net.Text(passed.Transfer(t.Context()))
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		for name, call := range map[string]func() (*redlock.Lease, error){
			"TryLock":    func() (*redlock.Lease, error) { return c.Mutex("x").TryLock(t.Context()) },
			"TryRLock":   func() (*redlock.Lease, error) { return c.RWMutex("x").TryRLock(t.Context()) },
			"TryAcquire": func() (*redlock.Lease, error) { return c.Semaphore("s", 1).TryAcquire(t.Context(), 1) },
			"Resume":     func() (*redlock.Lease, error) { return c.Resume(t.Context(), text) },
		} {
			lease, err := call()
			require.NoError(t, err, name)
			require.NoError(t, lease.Unlock(t.Context()), name)
		}
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded, "Lock does not")
	})
}

func TestLeadGoesOnElectingAfterTheWait(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		time.AfterFunc(time.Minute, holdAll(t, net.Client()))
		c := net.Client(redlock.WithWait(300 * ms))
		terms := 0
		took := testnet.Elapsed(func() {
			err := c.Mutex("x").Lead(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				terms++
				time.Sleep(time.Minute)
				return ctx.Err()
			})
			require.NoError(t, err)
		})
		require.Equal(t, 1, terms)
		require.Equal(t, uint64(1), c.Stats().Waits, "it waited once, for a minute")
		require.GreaterOrEqual(t, took, 2*time.Minute)
	})
}

func TestContextThatEndsBeforeTheWaitHasTheErrorsOfNone(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holdAll(t, net.Client())
		c := net.Client(redlock.WithWait(300 * ms))
		for name, call := range waits(c) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(200*ms, func() { cancel(errMine) })
			err := call(ctx)
			requireEnded(t, err, context.Canceled, name)
			require.ErrorContains(t, err, ": the caller had enough while waiting; last attempt: lock ", name)

			ctx, stop := context.WithTimeout(t.Context(), 200*ms)
			require.Equal(t, 200*ms, testnet.Elapsed(func() { err = call(ctx) }), name)
			stop()
			require.ErrorContains(t, err, ": context deadline exceeded while waiting; last attempt: lock ", name)
		}
		cause := c.Mutex("x").Do(t.Context(), never)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(200*ms, func() { cancel(cause) })
		_, err := c.Mutex("x").Lock(ctx)
		require.ErrorContains(t, err, " while waiting; last attempt: lock ", "another wait's error as a cause")
	})
}

func TestHooksSeeTheCallersContextAndTheEndOfTheWait(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithWait(300*ms))
		free := net.Must(c.Mutex("free").Lock(t.Context()))
		require.NoError(t, free.Unlock(t.Context()))
		holdAll(t, net.Client())
		ctx := context.WithValue(t.Context(), userKey{}, "the caller's")
		tape.Clear()
		_, err := c.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, ctx, testnet.Told[testnet.CallStart](&tape)[0].Context)
		require.Equal(t, err, testnet.Told[testnet.CallEnd](&tape)[0].Err)
		for _, b := range testnet.Told[testnet.BallotStart](&tape) {
			require.Equal(t, ctx, b.Context)
		}
		require.Equal(t, ctx, testnet.Told[testnet.WaitStart](&tape)[0].Context)
		end := testnet.Told[testnet.WaitEnd](&tape)[0]
		require.Equal(t, ctx, end.Context)
		require.Equal(t, err, end.Err)
		require.LessOrEqual(t, end.Waited, 300*ms)
	})
}

func TestWaitMustBeAboveZero(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			_, err := net.Client().Mutex("x", redlock.WithWait(d)).Lock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, fmt.Sprintf("WithWait(%v): the wait must be above 0", d))
		}
		lease := net.Must(net.Client().Mutex("x", redlock.WithWait(math.MaxInt64)).Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func ExampleWithWait() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background() // has no deadline: the work may take as long as it needs

	invoice := client.Mutex("invoice-42", redlock.WithWait(50*time.Millisecond))
	err := invoice.Do(ctx, func(context.Context, *redlock.Lease) error {
		time.Sleep(100 * time.Millisecond) // longer than the wait
		err := invoice.Do(context.Background(), func(context.Context, *redlock.Lease) error { return nil })
		fmt.Println("another caller waited in vain:", errors.Is(err, context.DeadlineExceeded), errors.Is(err, redlock.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid")
	// Output:
	// another caller waited in vain: true true
	// paid
}
