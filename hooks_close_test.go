package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// handler is a handler of log lines that is a function.
type handler func()

func (h handler) Enabled(context.Context, slog.Level) bool  { return true }
func (h handler) Handle(context.Context, slog.Record) error { h(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h handler) WithGroup(string) slog.Handler             { return h }

// called returns options by which f is called: once as a hook, once as a handler of log lines.
func called(f func()) map[string][]redlock.ClientOption {
	return map[string][]redlock.ClientOption{
		"hook":    {redlock.WithTrace(&redlock.Trace{CallEnd: func(redlock.CallEvent) { f() }})},
		"handler": {redlock.WithLogger(slog.New(handler(f)))},
	}
}

// cause makes the events: a call, and a node that is down and up.
func cause(t *testing.T, net *testnet.Net, c *redlock.Client) {
	lease := net.Must(c.Mutex("x").Lock(t.Context()))
	if err := lease.Unlock(t.Context()); !errors.Is(err, redlock.ErrClosed) { // a hook may have closed the client by then
		require.NoError(t, err)
	}
	net.Nodes[0].Down()
	time.Sleep(5 * time.Second)
}

func TestCloseWaitsANodeTimeoutForAHookThatBlocks(t *testing.T) {
	for kind := range called(nil) {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			over := make(chan struct{})
			c := net.Client(called(func() { <-over })[kind]...)
			cause(t, net, c)
			began := time.Now()
			require.NoError(t, c.Close())
			require.InDelta(t, 500*time.Millisecond, time.Since(began), float64(time.Millisecond), kind)
			close(over)
			synctest.Wait() // the goroutine ends
		})
	}
}

func TestHookMayCloseTheClient(t *testing.T) {
	for kind := range called(nil) {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			var client atomic.Pointer[redlock.Client]
			var closed atomic.Int32
			c := net.Client(called(func() {
				if c := client.Load(); c != nil {
					_ = c.Close()
					closed.Add(1)
				}
			})[kind]...)
			client.Store(c)
			cause(t, net, c)
			synctest.Wait()
			require.NotZero(t, closed.Load(), kind)
			_, err := c.Mutex("x").TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrClosed)
		})
	}
}

func TestPanicOfAHookEndsNothing(t *testing.T) {
	for kind := range called(nil) {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client(called(func() { panic("of the user") })[kind]...)
			cause(t, net, c)
			lease := net.Must(c.Mutex("x").Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
			require.NotZero(t, c.Stats().Dropped, kind)
		})
	}
}
