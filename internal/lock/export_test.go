package lock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// What release.lua returns where the key is reserved.
const (
	KeptForYou      int64 = 2
	HandedToAnother int64 = 3
)

// NewAttempt makes an attempt of a waiter, or of a caller that does not queue. It is not sent.
func (l *Lock) NewAttempt(ctx context.Context, w *waitqueue.Waiter) *Attempt {
	return (&call{Lock: l, waiter: w}).newAttempt(ctx)
}

// RollBack undoes an attempt of a caller that does not queue.
func (l *Lock) RollBack(owner string, at quorum.NodeSet) *quorum.Ballot {
	b := l.newRelease(owner, l.engine.Clock(), Release{}, nil)
	b.Send(at, false)
	return b
}

// HandoffPause returns how long a caller of the client lets the waiter go first that the
// client has handed a lock off to.
func (e *Engine) HandoffPause(key string) time.Duration {
	return e.handoff.pause([]string{key}, e.Clock)
}

// HasQueue reports whether the client has a wait queue.
func (e *Engine) HasQueue() bool { return e.queue.Load() != nil }
