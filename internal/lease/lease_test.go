package lease_test

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A lease is valid until its end, and a lease that is dropped is released.

func TestLeaseEndsAtTheInstantItsValidityEnds(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Clock.Sleep(lease.Remaining()) // the renewer has not looked yet
		require.False(t, lease.Valid())
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		net.RequireNoKeys()
	})
}

func TestMaxHoldEndsALeaseThatRenews(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second))
		lease := net.Must(net.Mutex(c, "x", redlock.WithMaxHold(5*time.Second)).Lock(t.Context()))
		require.Equal(t, 5*time.Second, testnet.Elapsed(func() { <-lease.Done() }))
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
		net.RequireNoKeys()

		short := net.Must(net.Mutex(c, "x", redlock.WithMaxHold(100*ms)).Lock(t.Context()))
		require.Equal(t, 100*ms, testnet.Elapsed(func() { <-short.Done() }))

		endless := net.Must(net.Mutex(c, "x", redlock.WithMaxHold(math.MaxInt64)).Lock(t.Context()))
		time.Sleep(5 * time.Second)
		require.NoError(t, endless.Err())
		require.Less(t, endless.Remaining(), time.Second)
		require.NoError(t, endless.Unlock(t.Context()))
	})
}

func TestDroppedHandleIsLoggedIfTheLeaseWasHeld(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithoutRenewal(), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		logged := func() int {
			synctest.Wait()
			return strings.Count(lines.String(), "dropped without Unlock")
		}
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		testhook.Handle(lease).Drop()
		require.Zero(t, logged(), "the lease was released before")

		lease = net.Must(net.Mutex(c, "x").Lock(t.Context()))
		net.Clock.Sleep(time.Minute) // the renewer has not looked yet
		testhook.Handle(lease).Drop()
		require.Zero(t, logged(), "the lease is lost, and the client logs that instead")

		lease = net.Must(net.Mutex(c, "x").Lock(t.Context()))
		testhook.Handle(lease).Drop()
		require.Equal(t, 1, logged())
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
		net.RequireNoKeys()
	})
}

func TestDroppedLeaseIsReleased(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	c := net.Client(redlock.WithTTL(3 * time.Second))
	done := make(chan (<-chan struct{}), 1)
	func() {
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		done <- lease.Done()
	}()
	kept, err := net.Mutex(c, "kept").Lock(t.Context())
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

func TestContextOfALeaseIsForgottenWhenItIsCancelled(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		_, cancel := lease.Context(t.Context())
		require.Equal(t, 1, testhook.Lease(lease).AtEndLen())
		cancel()
		require.Zero(t, testhook.Lease(lease).AtEndLen())
	})
}

func TestContextOfALeaseIsForgottenWhenItsParentEnds(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		ended, end := context.WithCancel(t.Context())
		end()
		ctx, cancel := lease.Context(ended)
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.Zero(t, testhook.Lease(lease).AtEndLen(), "its parent had ended before")

		living, cancel := lease.Context(t.Context())
		defer cancel()
		for range 10_000 {
			request, end := context.WithCancel(t.Context())
			_, cancel := lease.Context(request)
			defer cancel()
			end()
		}
		require.Less(t, testhook.Lease(lease).AtEndLen(), 100)
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, context.Cause(living), redlock.ErrReleased, "one whose parent lives is not forgotten")
	})
}
