package life

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed is the error of calls after Close, and of calls that Close ended.
var ErrClosed = errors.New("the client is closed")

// EndOf returns why ctx has ended, as an error that is both ctx's own and its cause; nil if ctx has not
// ended. Its text is the cause's. A caller that looks for context.Canceled need not know whether
// some function above it has given a cause.
func EndOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return &ended{cause, err}
}

// ended is the end of a context that has a cause.
type ended struct{ cause, err error }

func (e *ended) Error() string { return e.cause.Error() }

func (e *ended) Unwrap() []error { return []error{e.cause, e.err} }

// Life is the life of one client.
type Life struct {
	settled chan struct{}   // closed when the first attempts to connect are over
	closing chan struct{}   // closed when Close begins
	ctx     context.Context // ends with the client's goroutines
	end     context.CancelFunc
	running sync.WaitGroup // the client's goroutines

	// Close closes closing under mu. Enter reads closing, and adds to calls, under mu as
	// well: so nothing is added to calls while Close waits for them. Nobody holds mu for
	// longer than that.
	mu      sync.RWMutex
	calls   sync.WaitGroup // calls that ask the nodes
	waiting sync.WaitGroup // waiters; only a call counted in calls adds to it
}

// New begins a life.
func New() *Life {
	l := &Life{settled: make(chan struct{}), closing: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Context returns the context that ends with End.
func (l *Life) Context() context.Context { return l.ctx }

// Go starts a goroutine, for which End waits.
func (l *Life) Go(run func()) { l.running.Go(run) }

// Settle ends the time in which Enter waits for the first connections.
func (l *Life) Settle() { close(l.settled) }

// Closing returns a channel that is closed when Close begins.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// IsClosing reports whether Close has begun.
func (l *Life) IsClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Enter admits a call, after the first connections. After a nil error the caller must call
// Leave. Errors: ErrClosed after Close has begun, or ctx's cause; a call whose ctx has ended asks no node.
func (l *Life) Enter(ctx context.Context) error {
	select {
	case <-l.settled:
	default:
		select {
		case <-l.settled:
		case <-l.closing:
			return ErrClosed
		case <-ctx.Done():
			return EndOf(ctx)
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case l.IsClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return EndOf(ctx)
	}
	l.calls.Add(1)
	return nil
}

// Leave ends a call that Enter admitted.
func (l *Life) Leave() { l.calls.Done() }

// AddWaiter has Close wait for a RemoveWaiter more. Only a call that Enter admitted may
// call it.
func (l *Life) AddWaiter() { l.waiting.Add(1) }

// RemoveWaiter ends what AddWaiter began.
func (l *Life) RemoveWaiter() { l.waiting.Done() }

// Pause waits for d. It returns ctx's cause or ErrClosed if that ends it.
func (l *Life) Pause(ctx context.Context, d time.Duration) error { return l.Await(ctx, nil, d) }

// Await waits until ready is closed, or for d if that is sooner. It returns ctx's cause or ErrClosed if that ends it.
func (l *Life) Await(ctx context.Context, ready <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	case <-l.closing:
		return ErrClosed
	}
}

// Close admits no more calls, and returns when those under way and all waiters have ended.
func (l *Life) Close() {
	l.mu.Lock()
	close(l.closing)
	l.mu.Unlock()
	l.calls.Wait()
	l.waiting.Wait()
}

// End ends the client's goroutines, and returns when they have ended.
func (l *Life) End() {
	l.end()
	l.running.Wait()
}
