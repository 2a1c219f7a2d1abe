package notify

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPanicIsLoggedByTheNextLineAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := NewQueue(slog.New(slog.NewTextHandler(&log, nil)), false)
		end := start(t, q)
		for range 3 {
			q.Send(func() { panic("of a hook") })
		}
		delivered := false
		q.Send(func() { delivered = true })
		synctest.Wait()
		require.True(t, delivered, "the goroutine goes on")
		require.Equal(t, 1, strings.Count(log.String(), "panicked"), "at once, and then not for a while")
		require.Contains(t, log.String(), `panics=1 last="of a hook`)
		require.Contains(t, log.String(), "panic_test.go", "where it was")
		end()
		require.Contains(t, log.String(), "panics=2", "the rest is logged at the end")
		require.EqualValues(t, 3, q.Dropped())
	})
}

// fragile is a handler of log lines that panics a few times.
type fragile struct {
	slog.Handler
	panics *int
}

func (f fragile) Handle(ctx context.Context, r slog.Record) error {
	if *f.panics--; *f.panics >= 0 {
		panic("of a handler")
	}
	return f.Handler.Handle(ctx, r)
}

func TestPanicOfALoggerIsLoggedWhenItWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		panics := 2
		q := NewQueue(slog.New(fragile{slog.NewTextHandler(&log, nil), &panics}), false)
		end := start(t, q)
		q.Log(slog.LevelInfo, "first") // the handler panics at it, and at the line about that
		synctest.Wait()
		require.Empty(t, log.String())
		time.Sleep(dropLogInterval)
		q.Log(slog.LevelInfo, "second")
		end()
		require.Contains(t, log.String(), "second")
		require.Contains(t, log.String(), `last="of a handler`)
		require.EqualValues(t, 2, q.Dropped())
	})
}
