package redlock

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// newsBacklog is how much news waits for a slow logger or hook before further
// news is dropped.
const newsBacklog = 1024

// herald calls the user's logger and hooks, in order, from a goroutine of its
// own. They may be slow; who has something to tell, the keeper or the reader of
// a connection, must not wait for them: it ends leases in time.
type herald struct {
	news    chan func()
	dropped atomic.Int64
	logger  *slog.Logger
}

func newHerald(l *slog.Logger) *herald {
	return &herald{news: make(chan func(), newsBacklog), logger: l}
}

// tell has f called soon. It does not block.
func (h *herald) tell(f func()) {
	select {
	case h.news <- f:
	default:
		h.dropped.Add(1)
	}
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
	if n := h.dropped.Swap(0); n > 0 {
		h.write(slog.LevelWarn, "the logger or a Trace hook is too slow; news was dropped", "dropped", n)
	}
}
