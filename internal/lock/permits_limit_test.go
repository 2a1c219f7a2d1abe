package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const limitLine = `level=WARN msg="redlock: callers give a semaphore different numbers of permits`

// A caller of five permits waits behind one of three, for whom the fourth and the fifth slot look free. Its client logs
// that once for each name.
func TestAnotherNumberOfPermitsIsLoggedOnceForEachName(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		holder, three := net.Client(), net.Client()
		five := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for _, name := range []string{"x", "y"} {
			lease, err := holder.Semaphore(name, 3).Acquire(t.Context(), 3)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = three.Semaphore(name, 3).Acquire(ctx, 1) }()
			time.Sleep(100 * ms)
			for range 3 {
				_, err := five.Semaphore(name, 5).TryAcquire(t.Context(), 1)
				require.ErrorIs(t, err, redlock.ErrHeld)
			}
			s, err := five.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, 3, s.Queue[0].Limit)
			cancel()
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(time.Second)
			require.Equal(t, 1, strings.Count(lines.String(), "name="+name+" ours=5 theirs=3"), lines.String())
		}
		require.Equal(t, 2, strings.Count(lines.String(), limitLine), lines.String())
	})
}

func TestTheSameNumberOfPermitsIsNotLogged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 5 {
			go func() { _ = c.Semaphore("x", 3).Do(ctx, 2, func(context.Context, *redlock.Lease) error { return nil }) }()
		}
		time.Sleep(6 * time.Second)
		require.Empty(t, lines.String())
	})
}
