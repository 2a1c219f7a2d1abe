package redlock_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

var errMine = errors.New("the caller had enough")

// requireEnded checks the error of a call whose ctx was ended with errMine.
func requireEnded(t *testing.T, err, end error, call string) {
	t.Helper()
	require.ErrorIs(t, err, errMine, call)
	require.ErrorIs(t, err, end, call)
	require.ErrorContains(t, err, errMine.Error(), call)
	require.NotContains(t, err.Error(), end.Error(), call)
}

// callsThatEnd are calls that end with ctx, while another client holds "x".
func callsThatEnd(c *redlock.Client) map[string]func(context.Context) error {
	lock := func(_ *redlock.Lease, err error) error { return err }
	return map[string]func(context.Context) error{
		"Lock": func(ctx context.Context) error { return lock(c.Mutex("x").Lock(ctx)) },
		"Lock with back-off": func(ctx context.Context) error {
			return lock(c.Mutex("x", redlock.WithBackoff(func(int) time.Duration { return time.Hour })).Lock(ctx))
		},
		"RLock":   func(ctx context.Context) error { return lock(c.RWMutex("x").RLock(ctx)) },
		"Multi":   func(ctx context.Context) error { return lock(c.Multi([]string{"x", "y"}).Lock(ctx)) },
		"Acquire": func(ctx context.Context) error { return lock(c.Semaphore("s", 1).Acquire(ctx, 1)) },
		"Do":      func(ctx context.Context) error { return c.Mutex("x").Do(ctx, nil) },
		"Lead":    func(ctx context.Context) error { return c.Mutex("x").Lead(ctx, nil) },
	}
}

func TestErrorOfAnEndedContextIsBothItsErrorAndItsCause(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		held := net.Must(holder.Mutex("x").Lock(t.Context()))
		net.Must(holder.Semaphore("s", 1).Acquire(t.Context(), 1))
		for name, call := range callsThatEnd(c) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errMine) })
			requireEnded(t, call(ctx), context.Canceled, name)
			requireEnded(t, call(ctx), context.Canceled, name+", ended before")

			ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, errMine)
			defer stop()
			requireEnded(t, call(ctx), context.DeadlineExceeded, name)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errMine)
		text := net.Text(held.Transfer(t.Context()))
		for name, call := range map[string]func() error{
			"TryLock":     func() error { _, err := c.Mutex("free").TryLock(ended); return err },
			"ForceUnlock": func() error { _, err := c.ForceUnlock(ended, "x"); return err },
			"Inspect":     func() error { _, err := c.Inspect(ended, "x"); return err },
			"Ask":         func() error { return c.Ask(ended, "x") },
			"Ping":        func() error { return c.Ping(ended) },
			"Resume":      func() error { _, err := c.Resume(ended, text); return err },
			"Locks": func() error {
				for _, err := range c.Locks(ended, "*") {
					return err
				}
				return nil
			},
		} {
			requireEnded(t, call(), context.Canceled, name)
		}
	})
}

// callsUnderWay are all calls that end with ctx: of a client, a lease, and the text of another one.
func callsUnderWay(c *redlock.Client, held *redlock.Lease, text string) map[string]func(context.Context) error {
	calls := callsThatEnd(c)
	maps.Copy(calls, map[string]func(context.Context) error{
		"TryLock":     func(ctx context.Context) error { _, err := c.Mutex("x").TryLock(ctx); return err },
		"TryRLock":    func(ctx context.Context) error { _, err := c.RWMutex("x").TryRLock(ctx); return err },
		"TryAcquire":  func(ctx context.Context) error { _, err := c.Semaphore("s", 1).TryAcquire(ctx, 1); return err },
		"Extend":      held.Extend,
		"ExtendTo":    func(ctx context.Context) error { return held.ExtendTo(ctx, time.Minute) },
		"Downgrade":   held.Downgrade,
		"Transfer":    func(ctx context.Context) error { _, err := held.Transfer(ctx); return err },
		"Resume":      func(ctx context.Context) error { _, err := c.Resume(ctx, text); return err },
		"Ask":         func(ctx context.Context) error { return c.Ask(ctx, "x") },
		"Inspect":     func(ctx context.Context) error { _, err := c.Inspect(ctx, "x"); return err },
		"ForceUnlock": func(ctx context.Context) error { _, err := c.ForceUnlock(ctx, "x"); return err },
		"Ping":        c.Ping,
		"WaitReady":   c.WaitReady,
		"Locks": func(ctx context.Context) (err error) {
			for _, err = range c.Locks(ctx, "*") {
			}
			return err
		},
	})
	return calls
}

func TestErrorOfACallThatIsUnderWayWhenItsContextEnds(t *testing.T) {
	for name := range callsUnderWay(nil, nil, "") {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			held := net.Must(c.Mutex("held").Lock(t.Context()))
			passed := net.Must(c.Mutex("passed").Lock(t.Context()))
			text := net.Text(passed.Transfer(t.Context()))
			net.Nodes.Freeze()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(errMine) })
			requireEnded(t, callsUnderWay(c, held, text)[name](ctx), context.Canceled, name)
		})
	}
}

// A caller that waits for its turn to ask the nodes has asked none of them.
func TestErrorOfACallerWhoseContextEndsBeforeItsTurn(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes.Freeze()
		ctx, cancel := context.WithCancelCause(t.Context())
		const callers = 600
		ended := make(chan error, callers)
		for range callers {
			go func() { _, err := c.Mutex("x").Lock(ctx); ended <- err }()
		}
		time.Sleep(10 * time.Millisecond)
		require.Positive(t, c.Stats().Queued, "some wait for their turn")
		cancel(errMine)
		for range callers {
			requireEnded(t, <-ended, context.Canceled, "Lock")
		}
	})
}

// The cause of a lease's context is the error of the loss: what a function of Do returns for it says all.
func TestDoReportsALossOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lose := func(ctx context.Context) {
			for _, n := range net.Nodes {
				n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused })
				n.Cut()
			}
			<-ctx.Done()
			net.Nodes.Up()
		}
		err := c.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			lose(ctx)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		lost := (*redlock.LostError)(nil)
		require.ErrorAs(t, err, &lost)
		require.EqualError(t, err, lost.Error(), "it is there once")

		err = c.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			lose(ctx)
			return errMine
		})
		require.ErrorIs(t, err, errMine)
		require.ErrorIs(t, err, redlock.ErrLost, "a function's own error does not hide the loss")
	})
}

// Two nodes are down: the verdict falls before the third one has answered.
func twoDown(net *testnet.Net) {
	for _, n := range net.Nodes[:2] {
		n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused })
		n.Cut()
	}
}

func TestPingHearsTheHealthyNodesBeforeItFails(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		twoDown(net)
		time.Sleep(time.Second)
		var q *redlock.QuorumError
		require.ErrorAs(t, c.Ping(t.Context()), &q)
		require.Equal(t, redlock.Outcome("granted"), q.Votes[2].Outcome)
		require.Contains(t, q.Error(), "1 of 3 nodes granted")
		net.Nodes[2].Set(func(n *testnet.Node) { n.Holding = true })
		took := testnet.Elapsed(func() { require.ErrorAs(t, c.Ping(t.Context()), &q) })
		require.Equal(t, redlock.Outcome("unknown"), q.Votes[2].Outcome)
		require.LessOrEqual(t, took, 500*time.Millisecond, "it takes one node timeout")
	})
}

func TestNoNodeIsUnknownWithoutACause(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		twoDown(net)
		time.Sleep(time.Second)
		err := lease.Extend(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "node 2 (test-2): unknown: not awaited, since 2 other nodes had not granted it")
		<-lease.Done()
		require.ErrorContains(t, lease.Err(), "node 2 (test-2): unknown: not awaited")
	})
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Must(net.Client().Mutex("x").Lock(t.Context()))
		net.Nodes[2].Set(func(n *testnet.Node) { n.Delay = 100 * time.Millisecond })
		held := net.Held(net.Client().Mutex("x").TryLock(t.Context()))
		require.EqualError(t, held.Votes[2].Cause, "not awaited, since 2 other nodes had refused")
	})
}

func TestLossAfterCloseSaysThatTheClientWasClosed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		err := c.Mutex("x").Do(t.Context(), func(context.Context, *redlock.Lease) error {
			require.NoError(t, c.Close())
			time.Sleep(time.Minute)
			return nil
		})
		require.ErrorContains(t, err, "its validity ended: the client was closed")
	})
}

func TestANodeThatIsFrozenFromTheStartDoesNotAnswer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[1].Set(func(n *testnet.Node) { n.Holding = true })
		c := net.NewClient()
		s := net.Status(c.Inspect(t.Context(), "x"))
		require.EqualError(t, s.Nodes[1].Err, "it does not answer within 500ms")
		net.Nodes[2].Set(func(n *testnet.Node) { n.Holding = true })
		require.ErrorContains(t, net.NewClient().Ping(t.Context()), "does not answer within 2s")
	})
}
