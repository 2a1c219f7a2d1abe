package redlock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// newsBacklog is how much news waits for a slow logger or hook before further
	// news is dropped.
	newsBacklog = 1024

	// tracedBacklog is how much more waits where there are hooks: calls and ballots
	// come by tens of thousands a second, and this is what comes in some 50 ms. They
	// may not take the room of rare news.
	tracedBacklog = 16 << 10

	// complaint is how often, at most, it is logged that news was dropped.
	complaint = 10 * time.Second
)

// herald calls the user's logger and hooks, in order, from a goroutine of its
// own. They may be slow; who has something to tell, the keeper or the reader of
// a connection, must not wait for them: it ends leases in time.
type herald struct {
	news    chan func()
	logger  *slog.Logger
	dropped atomic.Uint64

	// The goroutine's own.
	told uint64    // how many of the dropped the log has told
	when time.Time // when it did so last
}

// newHerald makes a herald with room for rare news and, if traced, for frequent.
func newHerald(l *slog.Logger, traced bool) *herald {
	room := newsBacklog
	if traced {
		room += tracedBacklog
	}
	return &herald{news: make(chan func(), room), logger: l}
}

// tell has f called soon. It does not block.
func (h *herald) tell(f func()) {
	select {
	case h.news <- f:
	default:
		h.dropped.Add(1)
	}
}

// tellOften is tell for what happens all the time: it leaves room for the rest.
func (h *herald) tellOften(f func()) {
	if len(h.news) >= tracedBacklog {
		h.dropped.Add(1)
		return
	}
	h.tell(f)
}

// log reports a rare and important event.
func (h *herald) log(level slog.Level, msg string, attrs ...any) {
	h.tell(func() { h.write(level, msg, attrs...) })
}

func (h *herald) write(level slog.Level, msg string, attrs ...any) {
	h.logger.Log(context.Background(), level, "redlock: "+msg, attrs...)
}

// run delivers until ctx ends, then what has come by then.
func (h *herald) run(ctx context.Context) {
	defer func() {
		h.when = time.Time{}
		h.complain()
	}()
	for {
		select {
		case f := <-h.news:
			h.deliver(f)
			continue
		default:
		}
		select {
		case f := <-h.news:
			h.deliver(f)
		case <-ctx.Done():
			if len(h.news) == 0 {
				return
			}
		}
	}
}

func (h *herald) deliver(f func()) {
	f()
	h.complain()
}

// complain logs that news was dropped, now and then.
func (h *herald) complain() {
	n := h.dropped.Load()
	if n == h.told || time.Since(h.when) < complaint {
		return
	}
	h.write(slog.LevelWarn, "the logger or a Trace hook is too slow; news was dropped", "dropped", n-h.told)
	h.told, h.when = n, time.Now()
}
