package notify

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// start runs a queue. end returns when the queue has delivered all events that were sent
// before.
func start(t *testing.T, q *Queue) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// The queue drops events that its goroutine cannot deliver in time, and logs their number.
func TestFullQueueDropsEventsAndLogsTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := NewQueue(slog.New(slog.NewTextHandler(&log, nil)), false)
		end := start(t, q)
		delivered := 0
		q.Send(func() { time.Sleep(time.Second) })
		synctest.Wait()
		for range rareRoom + 5 {
			q.Send(func() { delivered++ })
		}
		end()
		require.Equal(t, rareRoom, delivered, "what was sent before the end is delivered")
		require.Contains(t, log.String(), "dropped=5")
	})
}

func TestFrequentEventsLeaveRoomForRareOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(slog.New(slog.DiscardHandler), true)
		end := start(t, q)
		ballots, losses := 0, 0
		q.Send(func() { time.Sleep(time.Second) })
		synctest.Wait()
		for range 2 * frequentRoom {
			q.SendFrequent(func() { ballots++ })
		}
		for range rareRoom {
			q.Send(func() { losses++ })
		}
		end()
		require.Equal(t, frequentRoom, ballots)
		require.Equal(t, rareRoom, losses)
		require.Equal(t, uint64(frequentRoom), q.Dropped())
	})
}

// A hook that is always too slow does not fill the log as well.
func TestQueueLogsDroppedEventsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := NewQueue(slog.New(slog.NewTextHandler(&log, nil)), false)
		end := start(t, q)
		var pause atomic.Int64
		pause.Store(int64(100 * time.Millisecond))
		for range 60 * rareRoom {
			q.Send(func() { time.Sleep(time.Duration(pause.Load())) })
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // so that the log can be read
		lines := strings.Count(log.String(), "events were dropped")
		require.InDelta(t, 6, lines, 1, "in a minute")
		pause.Store(0) // the rest is delivered at once, and so is the last line
		end()
		sum := uint64(0)
		for _, n := range regexp.MustCompile(`dropped=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
			k, err := strconv.ParseUint(n[1], 10, 64)
			require.NoError(t, err)
			sum += k
		}
		require.Equal(t, q.Dropped(), sum, "the rest is logged at the end")
	})
}
