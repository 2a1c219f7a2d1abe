package redlock

import (
	"errors"
	"fmt"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/printable"
)

// What errors.Is finds in the errors of this package.
var (
	// ErrHeld occurs when somebody else holds the lock, or may hold it. The
	// error is a *HeldError. It also occurs, without one, when the caller would
	// wait for itself: its context is that of a Do or Lease of the same lock.
	ErrHeld = errors.New("the lock is held")

	// ErrNoQuorum occurs when no majority of the nodes granted what was asked, and
	// none can be said to hold the lock: the votes were split, or too few answered to
	// tell. The error is a *QuorumError.
	ErrNoQuorum = errors.New("no quorum")

	// ErrLost occurs when a lease's validity ended before it was released, or
	// the lease was found to be taken away at a quorum. The error is a *LostError.
	ErrLost = errors.New("the lease is lost")

	// ErrReleased occurs when a lease is used after its Unlock.
	ErrReleased = lease.ErrReleased

	// ErrClosed occurs when the Client is closed, or was meanwhile.
	ErrClosed = life.ErrClosed

	// ErrConfig occurs when a setting is bad by itself or in relation to others.
	ErrConfig = errors.New("bad configuration")
)

func configError(format string, args ...any) error {
	return fmt.Errorf("redlock: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// printableError is an error that may repeat what a server said: its text has neither
// escape sequences nor line breaks.
type printableError struct{ error }

func (e printableError) Error() string { return printable.Line(e.error.Error()) }

func (e printableError) Unwrap() error { return e.error }

// fill sets *target to e where target is a *T; the pointer form, **T, is what
// errors.As does by itself.
func fill[T any](target any, e T) bool {
	t, ok := target.(*T)
	if ok {
		*t = e
	}
	return ok
}

// waitError is a call that was ended from outside: it is the cause of that, and
// what the call had met until then.
type waitError struct {
	op    string // "lock" or "extend"
	name  string
	cause error // the ctx's, or ErrClosed
	last  error // nil when no ballot was over
}

func (e *waitError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("redlock: %s %q: %v", e.op, e.name, e.cause)
	}
	return fmt.Sprintf("redlock: %s %q: gave up: %v; what was met last: %v", e.op, e.name, e.cause, e.last)
}

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}
