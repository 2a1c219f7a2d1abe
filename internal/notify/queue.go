package notify

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// rareRoom is how many rare events may wait for a slow logger or hook before the queue
	// drops further ones.
	rareRoom = 1024

	// frequentRoom is the same for frequent events, in a Queue that has any: calls and
	// ballots come by tens of thousands a second, so this is some 50 ms of them.
	frequentRoom = 16 << 10

	// dropLogInterval is how often, at most, a Queue logs that it dropped events.
	dropLogInterval = 10 * time.Second
)

// Queue holds events until its goroutine delivers them.
type Queue struct {
	events  chan func()
	logger  *slog.Logger
	dropped atomic.Uint64

	panics atomic.Uint64

	// Used by the goroutine of Run alone.
	dropsLogged  uint64    // how many of the dropped events were logged
	loggedAt     time.Time // when drops were last logged
	panicsLogged uint64    // how many of the panics were logged
	panicAt      time.Time // when panics were last logged
	lastPanic    string
}

// NewQueue makes a queue with room for rare events and, if frequent, for frequent ones.
func NewQueue(l *slog.Logger, frequent bool) *Queue {
	room := rareRoom
	if frequent {
		room += frequentRoom
	}
	return &Queue{events: make(chan func(), room), logger: l}
}

// Send queues a call of f. It does not block: if the queue is full, it drops f.
func (q *Queue) Send(f func()) {
	select {
	case q.events <- f:
	default:
		q.dropped.Add(1)
	}
}

// SendFrequent is Send for frequent events. It leaves the room for rare ones free.
func (q *Queue) SendFrequent(f func()) {
	if len(q.events) >= frequentRoom {
		q.dropped.Add(1)
		return
	}
	q.Send(f)
}

// Log sends a line to the logger.
func (q *Queue) Log(level slog.Level, msg string, attrs ...any) {
	q.Send(func() { q.write(level, msg, attrs...) })
}

func (q *Queue) write(level slog.Level, msg string, attrs ...any) {
	q.logger.Log(context.Background(), level, "redlock: "+msg, attrs...)
}

// Dropped returns how many events were dropped so far, or ended with a panic.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() + q.panics.Load() }

// Run delivers events until ctx ends, and then those that are in the queue.
func (q *Queue) Run(ctx context.Context) {
	defer func() {
		q.loggedAt, q.panicAt = time.Time{}, time.Time{}
		q.logDrops()
		q.logPanics()
	}()
	for {
		select {
		case f := <-q.events:
			q.deliver(f)
			continue
		default:
		}
		select {
		case f := <-q.events:
			q.deliver(f)
		case <-ctx.Done():
			if len(q.events) == 0 {
				return
			}
		}
	}
}

func (q *Queue) deliver(f func()) {
	q.call(f)
	q.logDrops()
	q.logPanics()
}

// call calls f. A panic there is the user's, and must not end a process that holds locks.
func (q *Queue) call(f func()) {
	defer func() {
		if why := recover(); why != nil {
			q.panics.Add(1)
			q.lastPanic = fmt.Sprintf("%v\n%s", why, debug.Stack())
		}
	}()
	f()
}

// logPanics logs the last panic, and how many there were since it last did, at most once in a dropLogInterval. The
// logger may panic again: then the next call logs that.
func (q *Queue) logPanics() {
	n := q.panics.Load()
	if n == q.panicsLogged || time.Since(q.panicAt) < dropLogInterval {
		return
	}
	count, last := n-q.panicsLogged, q.lastPanic
	q.panicsLogged, q.panicAt = n, time.Now()
	q.call(func() {
		q.write(slog.LevelError, "the logger or a Trace hook panicked; the client goes on", "panics", count, "last", last)
	})
}

// logDrops logs how many events were dropped since it last did, at most once in a
// dropLogInterval.
func (q *Queue) logDrops() {
	n := q.dropped.Load()
	if n == q.dropsLogged || time.Since(q.loggedAt) < dropLogInterval {
		return
	}
	count := n - q.dropsLogged
	q.dropsLogged, q.loggedAt = n, time.Now()
	q.call(func() {
		q.write(slog.LevelWarn, "the logger or a Trace hook is too slow; events were dropped", "dropped", count)
	})
}
