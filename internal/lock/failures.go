package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// FailurePause is the shortest time between two attempts of a client while no majority of the nodes can vote until a
// person acts: a loop around Lock must not keep a processor busy, and fill a log, because of a wrong password.
const FailurePause = 100 * time.Millisecond

// failures paces the callers that wait for locks while no majority of the nodes can vote until a person acts.
// One caller asks in each FailurePause, and the others share its refusal: it says nothing of a single lock.
type failures struct {
	last atomic.Pointer[Refusal] // nil while a majority can vote

	mu   sync.Mutex    // protects next; innermost
	next time.Duration // when the next caller asks
}

// await returns no refusal if the caller may ask the nodes. Else it pauses, and returns the refusal of a caller that
// asked. Errors: ctx's cause, or life.ErrClosed.
func (f *failures) await(ctx context.Context, e *Engine) (*Refusal, error) {
	if f.last.Load() == nil {
		return nil, nil
	}
	left := f.turn(e.Clock())
	if left <= 0 {
		return nil, nil
	}
	if err := e.Life.Pause(ctx, left); err != nil {
		return f.last.Load(), err
	}
	if f.turn(e.Clock()) <= 0 {
		return nil, nil
	}
	return f.last.Load(), nil
}

// turn returns how long it is until the next caller asks. If that is 0 or less, it is the caller of turn.
func (f *failures) turn(now time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.next - now
	if left <= 0 {
		f.next = now + FailurePause
	}
	return left
}

// record takes the result of an attempt; a nil refusal was granted.
func (f *failures) record(r *Refusal, now time.Duration) {
	switch {
	case r != nil && r.hopeless && r.Votes.IsUnfit():
		f.mu.Lock()
		f.next = max(f.next, now+FailurePause)
		f.mu.Unlock()
		f.last.Store(r)
	case f.last.Load() != nil:
		f.last.Store(nil)
	}
}
