package redlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A call that fails before it asks any node is a call to hooks as every other is, whatever it locks.
func TestHooksReportCallsThatAskNoNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		c := net.Client(redlock.WithTrace(tape.Trace()))
		s, rw := c.Semaphore("permits", 3), c.RWMutex("read")
		held := t.Context()
		for _, lock := range []func(context.Context) (*redlock.Lease, error){
			c.Mutex("x").Lock, rw.RLock, c.Multi([]string{"a", "b"}).Lock,
			func(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, 2) },
		} {
			lease, err := lock(held)
			require.NoError(t, err)
			var end context.CancelFunc
			held, end = lease.Context(held)
			defer end()
		}
		asked := len(testnet.Told[testnet.BallotStart](&tape))
		for _, call := range []struct {
			op, name string
			why      error
			make     func() (*redlock.Lease, error)
		}{
			{"lock", "x", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Mutex("x").Lock(held) }},
			{"trylock", "x", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Mutex("x").TryLock(held) }},
			{"rlock", "read", redlock.ErrHeld, func() (*redlock.Lease, error) { return rw.RLock(held) }},
			{"lock", "a, b", redlock.ErrHeld, func() (*redlock.Lease, error) { return c.Multi([]string{"b", "a"}).Lock(held) }},
			{"acquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return s.Acquire(held, 2) }},
			{"tryacquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return s.TryAcquire(held, 2) }},
			{"acquire", "permits", redlock.ErrHeld, func() (*redlock.Lease, error) { return nil, s.Do(held, 3, nil) }},
			{"lock", "", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Mutex("").Lock(held) }},
			{"acquire", "", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Semaphore("", 3).Acquire(held, 1) }},
			{"acquire", "permits", redlock.ErrConfig, func() (*redlock.Lease, error) { return s.Acquire(held, 4) }},
			{"tryacquire", "permits", redlock.ErrConfig, func() (*redlock.Lease, error) { return c.Semaphore("permits", -1).TryAcquire(held, 1) }},
		} {
			before := len(testnet.Told[testnet.CallEnd](&tape))
			lease, err := call.make()
			require.ErrorIs(t, err, call.why)
			require.Nil(t, lease)
			ends := testnet.Told[testnet.CallEnd](&tape)
			require.Len(t, ends, before+1, "%s %q: %v", call.op, call.name, err)
			require.Len(t, testnet.Told[testnet.CallStart](&tape), before+1)
			require.Equal(t, err, ends[before].Err)
			require.Equal(t, call.op, ends[before].Op)
			require.Equal(t, call.name, ends[before].Name)
			require.Equal(t, held, ends[before].Context)
		}
		require.Len(t, testnet.Told[testnet.BallotStart](&tape), asked)
	})
}
