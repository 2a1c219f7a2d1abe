package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

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

	// ErrLost occurs when a lease's validity ended before it was released, when
	// a quorum did not have the lease any more, and when Resume did not get a lease that was handed off. The error is a *LostError.
	ErrLost = errors.New("the lease is lost")

	// ErrReleased occurs when a lease is used after its Unlock.
	ErrReleased = lease.ErrReleased

	// ErrHandedOff is the error of Extend, ExtendTo, Downgrade, Handoff and Lease.Err, and the cause of the lease's
	// contexts, after Handoff. Unlock returns nil then.
	ErrHandedOff = lease.ErrHandedOff

	// ErrClosed occurs when the Client is closed, or was meanwhile.
	ErrClosed = life.ErrClosed

	// ErrConfig occurs when a setting or an argument is bad, by itself or in relation to others, and when a call is not
	// possible for this kind of lock or lease.
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
	op    string // "lock", "acquire", "extend", "downgrade", "handoff", "resume" or "lead"
	name  string
	cause error // the ctx's, or ErrClosed
	last  error // nil when no ballot was over
}

func (e *waitError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("redlock: %s %q: %v", e.op, printable.Cut(e.name), e.cause)
	}
	return fmt.Sprintf("redlock: %s %q: %v while waiting; last attempt: %v", e.op, printable.Cut(e.name), e.cause,
		strings.TrimPrefix(e.last.Error(), "redlock: "))
}

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// LostReason is why a lease was lost.
type LostReason int

// The reasons for which a lease is lost.
const (
	// LostExpired: its validity ended, and no renewal had been begun that could have
	// prolonged it. Either it had WithoutRenewal and was not extended in time, or the
	// process or the machine was suspended, or Close had ended the renewals while a Do
	// went on.
	LostExpired LostReason = iota
	// LostMaxHold: it was held for as long as WithMaxHold allows.
	LostMaxHold
	// LostRevoked: a quorum of the nodes did not have it any more. Its keys were deleted
	// or replaced, by ForceUnlock or by hand, or the servers lost their memory.
	LostRevoked
	// LostNoQuorum: its renewals failed until its validity ended.
	LostNoQuorum
	// LostHandoff: it was handed off, and Resume came too late, or another call resumed
	// it first. Only Resume returns it. Acquire the lock anew.
	LostHandoff
)

// String returns the reason in words: "expired", "max hold", "revoked", "no quorum", "handoff".
func (r LostReason) String() string {
	switch r {
	case LostExpired:
		return "expired"
	case LostMaxHold:
		return "max hold"
	case LostRevoked:
		return "revoked"
	case LostNoQuorum:
		return "no quorum"
	case LostHandoff:
		return "handoff"
	default:
		return fmt.Sprintf("LostReason(%d)", int(r))
	}
}

// LostError is the error of a lost lease. errors.Is finds ErrLost in it; errors.As takes
// both *LostError and LostError.
//
// It has no Unwrap, so errors.Is does not find ErrNoQuorum in it, also where Cause is a
// *QuorumError: ErrNoQuorum in the error of Extend means that the lease is still valid
// until its old end, and ErrLost that it is not.
type LostError struct {
	Name, Owner string     // the lock's name, and the owner that marked the lease; of Resume, what marked it since Handoff
	Token       int64      // the lease's fencing token
	Reason      LostReason // why it was lost
	Holder      string     // the new owner, where Reason is LostRevoked and a quorum named it
	Votes       []Vote     // of the renewal that showed it, the last that a node answered, or of Resume's last attempt; nil if there is none
	Cause       error      // that renewal's error, a *QuorumError, where Reason is LostNoQuorum, or that of Resume; else nil

	expiry string // why no renewal was begun, where Reason is LostExpired; "" if that is not known
}

// Error names the lock, says what happened, and where possible what to do.
func (e LostError) Error() string {
	return fmt.Sprintf("redlock: the lease of %q is lost: %s", printable.Cut(e.Name), e.explain())
}

// explain returns a sentence about the reason, with the details that the error has.
func (e *LostError) explain() string {
	switch e.Reason {
	case LostExpired:
		return "its validity ended: " + cmp.Or(e.expiry, "no renewal was begun in time")
	case LostMaxHold:
		return "it was held for as long as WithMaxHold allows"
	case LostRevoked:
		why := "its keys were deleted or replaced at a quorum: by ForceUnlock, by hand, or by servers that lost their memory"
		if e.Holder != "" {
			why += fmt.Sprintf("; the lock is held by %q now", printable.Cut(e.Holder))
		}
		return why
	default:
		why := "its renewals failed until its validity ended"
		if e.Reason == LostHandoff {
			why = "it was handed off, and could not be resumed: too late, or another caller has the lock"
		}
		if e.Cause != nil {
			why += ": " + strings.TrimPrefix(e.Cause.Error(), "redlock: ")
		}
		return why
	}
}

// Is reports that the error is ErrLost.
func (e LostError) Is(target error) bool { return target == ErrLost }

// As lets errors.As fill a LostError by value.
func (e LostError) As(target any) bool { return fill(target, e) }

// lostError makes the error of a lease that was lost.
func lostError(l *lease.Lease, loss lease.Loss) error {
	e := &LostError{Name: l.Name, Owner: l.Owner, Token: l.Token, Reason: LostReason(loss.Reason - lease.Expired),
		Holder: loss.Holder, Votes: votesOf(loss.Renewal)}
	switch {
	case e.Reason == LostNoQuorum:
		e.Cause = quorumError(l.Name, loss.Renewal)
	case e.Reason == LostExpired && loss.Closed:
		e.expiry = "the client was closed, which ended its renewals, and the Do under it went on"
	case e.Reason == LostExpired && loss.Unrenewed:
		e.expiry = "it is WithoutRenewal, and was not extended before Remaining was 0"
	case e.Reason == LostExpired:
		e.expiry = "no renewal was begun in time, since the process or the machine was suspended or overloaded"
	}
	return e
}
