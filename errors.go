package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/printable"
)

// The errors that errors.Is finds.
var (
	// ErrHeld: another caller holds the lock, or may hold it (*HeldError); or the caller would wait
	// for itself.
	ErrHeld = errors.New("the lock is held")

	// ErrNoQuorum: no majority of the nodes granted the request, and no holder is known
	// (*QuorumError).
	ErrNoQuorum = errors.New("no quorum")

	// ErrLost: the lease ended before its release, or Resume did not get it (*LostError). Another
	// caller may have held the lock.
	ErrLost = errors.New("the lease is lost")

	// ErrReleased: the lease was released by Unlock.
	ErrReleased = lease.ErrReleased

	// ErrTransferred: the lease was transferred, or Transfer runs.
	ErrTransferred = lease.ErrTransferred

	// ErrClosed: the Client is closed.
	ErrClosed = life.ErrClosed

	// ErrConfig: a setting or an argument is invalid, or the call is not possible for this kind of
	// lock or lease.
	ErrConfig = errors.New("bad configuration")

	// ErrResign: fn of Lead returns it to stand again at once, behind the waiters.
	ErrResign = errors.New("the leader resigns")
)

func configError(format string, args ...any) error {
	return fmt.Errorf("redlock: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// printableError is an error that may repeat what a server said: its text has neither
// escape sequences nor line breaks.
type printableError struct{ error }

func (e printableError) Error() string { return printable.Line(e.error.Error()) }

func (e printableError) Unwrap() error { return e.error }

// waitError is a call that was ended from outside: it is the cause of that, and
// what the call had met until then.
type waitError struct {
	op    string // "lock", "extend", "downgrade", "transfer", "resume", "lead" or "wait"
	name  string // empty for a wait
	cause error  // the ctx's, or ErrClosed
	last  error  // nil when no ballot was over; of a lead that led, what fn came to

	led time.Duration // of a lead: for how long fn had led when cause ended it; 0: it waited
}

func (e *waitError) Error() string {
	what := "redlock: " + e.op
	if e.name != "" {
		what += fmt.Sprintf(" %q", printable.Cut(e.name))
	}
	if e.last == nil {
		return fmt.Sprintf("%s: %v", what, e.cause)
	}
	last := strings.TrimPrefix(e.last.Error(), "redlock: ")
	if e.led > 0 {
		what = fmt.Sprintf("%s: %v after it had led for %v", what, e.cause, e.led.Round(time.Millisecond))
		if last == e.cause.Error() {
			return what
		}
		return what + "; fn returned: " + last
	}
	if _, over := e.cause.(waitOver); over {
		return fmt.Sprintf("%s: %v; last attempt: %v", what, e.cause, last)
	}
	return fmt.Sprintf("%s: %v while waiting; last attempt: %v", what, e.cause, last)
}

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// waitOver ends a call that has waited for as long as its WithWait allows.
type waitOver time.Duration

func (w waitOver) Error() string {
	return fmt.Sprintf("not acquired within %v (WithWait)", time.Duration(w))
}

// Unwrap returns what a deadline of ctx returns.
func (w waitOver) Unwrap() error { return context.DeadlineExceeded }

// HeldError describes the holder of the lock. errors.Is finds ErrHeld in it.
type HeldError struct {
	Name      string        // the lock's
	Holder    string        // its owner; empty for readers and permits, or if reserved for the first waiter
	Label     string        // the owner's label; may be empty
	Shared    bool          // readers hold the lock
	Permits   bool          // too few permits are free
	Resting   bool          // WithMinHold keeps the lock taken after the lease
	Remaining time.Duration // until the holder's keys expire, unless extended; 0: unknown; negative: never
	Position  int           // in the wait queue, from 1; 0: not queued
	Votes     []Vote

	heldFor time.Duration // how long ago the holder's lease was granted, by its wall clock; 0: not known
}

// Error names the lock, its holder and the time left.
func (e *HeldError) Error() string {
	left := fmt.Sprintf(" (expires in %v unless renewed)", e.Remaining)
	switch {
	case e.Remaining == 0:
		left = ""
	case e.Remaining < 0:
		left = " without an end (its key has no ttl)"
	case e.Resting:
		left = fmt.Sprintf(" for another %v", e.Remaining)
	case e.Permits:
		left = fmt.Sprintf(" (the next can expire in %v)", e.Remaining)
	case e.Shared:
		left = fmt.Sprintf(" (the last of them expires in %v unless renewed)", e.Remaining)
	}
	who := fmt.Sprintf("held by %q", printable.Cut(e.Holder))
	if e.heldFor >= time.Second {
		who += " for " + printable.Age(e.heldFor)
	}
	switch {
	case e.Resting:
		who = fmt.Sprintf("resting after its lease of %q", printable.Cut(e.Holder))
	case e.Shared:
		who = "held by readers"
	case e.Permits:
		who = "too few permits are free"
	case e.Holder == "":
		who = "reserved for the first waiter"
	}
	position := ""
	if e.Position > 0 {
		position = fmt.Sprintf(", position %d in the wait queue", e.Position)
	}
	return fmt.Sprintf("redlock: lock %q: %s%s%s", printable.Cut(e.Name), who, left, position)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostReason is why a lease was lost.
type LostReason int

// Reasons of a loss.
const (
	// LostExpired: its validity ended, and no renewal had begun that could have prolonged it.
	LostExpired LostReason = LostReason(lease.Expired)
	// LostMaxHold: it was held for as long as WithMaxHold allows.
	LostMaxHold LostReason = LostReason(lease.MaxHold)
	// LostRevoked: a quorum of the nodes no longer had it.
	LostRevoked LostReason = LostReason(lease.Revoked)
	// LostNoQuorum: its renewals failed until its validity ended.
	LostNoQuorum LostReason = LostReason(lease.NoQuorum)
	// LostTransferred: Resume came too late, or another call resumed it.
	LostTransferred LostReason = LostReason(lease.NotResumed)
)

// String returns the reason in words.
func (r LostReason) String() string {
	if r >= 0 && lease.Reason(r) < lease.Released {
		return lease.Reason(r).String()
	}
	return fmt.Sprintf("LostReason(%d)", int(r))
}

// LostError is the error of a lost lease. errors.Is finds ErrLost in it, and never ErrNoQuorum.
type LostError struct {
	Name, Owner string // the lock's name, the lease's owner
	Token       int64  // its fencing token
	Reason      LostReason
	Holder      string // the new owner after LostRevoked, if known
	Votes       []Vote // of the last answered renewal, or of Resume; may be nil
	Cause       error  // the error of that renewal (LostNoQuorum) or Resume; else nil

	expiry string // why no renewal was begun, where Reason is LostExpired; "" if that is not known
}

// Error names the lock and the reason.
func (e *LostError) Error() string {
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
		why := "its keys were deleted or replaced at a quorum: by ForceUnlock, by hand, by servers that lost memory, or by server clocks set forward"
		if e.Holder != "" {
			why += fmt.Sprintf("; the lock is held by %q now", printable.Cut(e.Holder))
		}
		return why
	default:
		why := "its renewals failed until its validity ended"
		if e.Reason == LostTransferred {
			why = "it was transferred, and could not be resumed: too late, or another caller has the lock"
		}
		if e.Cause != nil {
			why += ": " + strings.TrimPrefix(e.Cause.Error(), "redlock: ")
		}
		return why
	}
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// lostError makes the error of a lease that was lost.
func lostError(l *lease.Lease, loss lease.Loss) error {
	e := &LostError{Name: l.Name, Owner: l.Owner, Token: l.Token, Reason: LostReason(loss.Reason),
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
