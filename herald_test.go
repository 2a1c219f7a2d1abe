package redlock

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASlowHookDelaysNoLease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		slow := &Trace{LeaseDanger: func(LeaseDanger) { time.Sleep(time.Minute) }}
		c := net.client(WithTTL(3*time.Second), WithTrace(slow))
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := c.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			n.down()
		}
		for _, lease := range []*Lease{first, second} {
			left := lease.Remaining()
			require.Equal(t, left, elapsed(func() { <-lease.Done() }))
		}
	})
}

// News that nobody hears in time is dropped, and that is told.
func TestTheHeraldDropsNewsRatherThanWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		h := newHerald(slog.New(slog.NewTextHandler(&told, nil)), false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.run(ctx)
		}()
		heard := 0
		h.tell(func() { time.Sleep(time.Second) })
		synctest.Wait()
		for range newsBacklog + 5 {
			h.tell(func() { heard++ })
		}
		cancel()
		<-ended
		require.Equal(t, newsBacklog, heard, "what had come is delivered before the end")
		require.Contains(t, told.String(), "dropped=5")
	})
}

func TestALostLeaseIsLoggedOnce(t *testing.T) {
	for name, lose := range map[string]func(n *testNode){
		"taken away": func(n *testNode) { n.redis.Del("redlock:x") },
		"cut off":    func(n *testNode) { n.down() },
	} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			var told strings.Builder
			c := net.client(WithTTL(3*time.Second), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			for _, n := range net.nodes {
				lose(n)
			}
			<-lease.Done()
			time.Sleep(time.Second)
			require.NoError(t, c.Close())
			require.Equal(t, 1, strings.Count(told.String(), "a lease is lost"), name)
		})
	}
}

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestManyBallotsDoNotCrowdOutWhatIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerald(slog.New(slog.DiscardHandler), true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.run(ctx)
		}()
		ballots, losses := 0, 0
		h.tell(func() { time.Sleep(time.Second) })
		synctest.Wait()
		for range 2 * tracedBacklog {
			h.tellOften(func() { ballots++ })
		}
		for range newsBacklog {
			h.tell(func() { losses++ })
		}
		cancel()
		<-ended
		require.Equal(t, tracedBacklog, ballots)
		require.Equal(t, newsBacklog, losses)
		require.Equal(t, uint64(tracedBacklog), h.dropped.Load())
	})
}

// A hook that is always too slow does not fill the log as well.
func TestDroppedNewsIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told journal
		h := newHerald(slog.New(slog.NewTextHandler(&told, nil)), false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.run(ctx)
		}()
		var pause atomic.Int64
		pause.Store(int64(100 * ms))
		for range 60 * newsBacklog {
			h.tell(func() { time.Sleep(time.Duration(pause.Load())) })
			time.Sleep(ms)
		}
		lines := strings.Count(told.String(), "news was dropped")
		require.InDelta(t, 6, lines, 1, "in a minute")
		synctest.Wait()
		pause.Store(0) // what waits is told in no time, and so is the end
		cancel()
		<-ended
		sum := uint64(0)
		for _, n := range regexp.MustCompile(`dropped=(\d+)`).FindAllStringSubmatch(told.String(), -1) {
			k, err := strconv.ParseUint(n[1], 10, 64)
			require.NoError(t, err)
			sum += k
		}
		require.Equal(t, h.dropped.Load(), sum, "the rest is told at the end")
	})
}
