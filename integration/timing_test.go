package integration

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// timed returns how long f took.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// hiccups measures the delays of the machine: how late this process's own timers fire, and
// how long a bare PING takes at the healthy servers. On a loaded machine a goroutine, or a
// server, that is ready to run may have to wait for a processor. Tests of time limits add
// that much, and a little for the work itself.
type hiccups struct {
	worst atomic.Int64
	stop  chan struct{}
	ended sync.WaitGroup
}

// watchHiccups measures until the test ends.
func watchHiccups(t testing.TB, healthy ...*cluster.Node) *hiccups {
	t.Helper()
	h := &hiccups{stop: make(chan struct{})}
	h.watch(func() time.Duration {
		const nap = time.Millisecond
		return timed(func() { time.Sleep(nap) }) - nap
	})
	for _, n := range healthy {
		c, err := redis.Dial("tcp", n.Addr(), redis.DialReadTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		h.watch(func() time.Duration {
			time.Sleep(5 * time.Millisecond)
			return timed(func() { _, _ = c.Do("PING") })
		})
	}
	t.Cleanup(func() { close(h.stop); h.ended.Wait() })
	return h
}

// watch measures again and again, in a goroutine of its own.
func (h *hiccups) watch(measure func() time.Duration) {
	h.ended.Go(func() {
		for {
			select {
			case <-h.stop:
				return
			default:
			}
			d := int64(measure())
			for worst := h.worst.Load(); d > worst && !h.worst.CompareAndSwap(worst, d); {
				worst = h.worst.Load()
			}
		}
	})
}

// longest is the worst of them.
func (h *hiccups) longest() time.Duration { return time.Duration(h.worst.Load()) }

// allowance is the tolerance for one time limit.
func (h *hiccups) allowance() time.Duration { return 15*time.Millisecond + 2*h.longest() }
