package limiter

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/life"
)

// maxRetrying is how many callers of a client ask again at a time while too few nodes answer. They find
// out for all others when a quorum answers: thousands of callers that each ask a few times in a second
// would keep the process busy, and the nodes that are to recover.
const maxRetrying = 16

// retries are the callers whose attempts too few nodes answered. They are protected by the Limiter's lock.
type retries struct {
	pausing int         // so many pause, and ask again then
	waiting list.List   // of chan bool, those of the others in the order of their calls; each gets whether it is to pause
	some    atomic.Bool // waiting has one; stored under the Limiter's lock
}

// next tells the first that waits whether it is to pause.
func (r *retries) next(pauses bool) {
	r.waiting.Remove(r.waiting.Front()).(chan bool) <- pauses
	r.some.Store(r.waiting.Len() > 0)
}

// Retry returns when a caller whose attempt too few nodes answered may ask again: after a pause if few
// callers are in this state; else when it has become one of these few and has paused, or when a quorum
// has answered others. Errors: life.ErrClosed, or ctx's cause.
func (l *Limiter) Retry(ctx context.Context, pause time.Duration, c Caller) error {
	l.mu.Lock()
	if l.retries.pausing < maxRetrying {
		l.retries.pausing++
		l.mu.Unlock()
		return l.pause(ctx, pause)
	}
	ahead := l.retries.waiting.Len()
	granted := make(chan bool, 1) // has room for the one value that it gets
	place := l.retries.waiting.PushBack(granted)
	l.retries.some.Store(true)
	l.mu.Unlock()

	ended := c.TurnAwaited(ctx, ahead)
	pauses, err := l.awaitRetry(ctx, granted, place)
	ended(err)
	if err == nil && pauses {
		err = l.pause(ctx, pause)
	}
	return err
}

// awaitRetry waits until the caller may go on, and reports whether it is to pause first.
func (l *Limiter) awaitRetry(ctx context.Context, granted <-chan bool, place *list.Element) (pauses bool, err error) {
	select {
	case pauses = <-granted:
		return pauses, nil
	case <-ctx.Done():
		err = life.EndOf(ctx)
	case <-l.life.Closing():
		err = life.ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case pauses = <-granted: // at the same instant; its place is passed on
		if pauses {
			l.endPause()
		}
	default:
		l.retries.waiting.Remove(place)
		l.retries.some.Store(l.retries.waiting.Len() > 0)
	}
	return false, err
}

// pause waits as one of those that ask again.
func (l *Limiter) pause(ctx context.Context, d time.Duration) error {
	err := l.life.Pause(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPause()
	return err
}

// endPause passes the place of a caller that has paused to the first that waits. Called under l.mu.
func (l *Limiter) endPause() {
	if l.retries.waiting.Len() > 0 {
		l.retries.next(true)
		return
	}
	l.retries.pausing--
}

// Answered says that a quorum has answered an attempt. Two of those that wait to ask again do so, and if
// they are answered, four more: nodes that answer again a little are not overrun.
func (l *Limiter) Answered() {
	if !l.retries.some.Load() { // as for nearly every attempt
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i < 2 && l.retries.waiting.Len() > 0; i++ {
		l.retries.next(false)
	}
}
