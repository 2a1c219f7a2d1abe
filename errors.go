package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/node"
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
	ErrReleased = errors.New("the lease is released")

	// ErrClosed occurs when the Client is closed, or was meanwhile.
	ErrClosed = errors.New("the client is closed")

	// ErrConfig occurs when a setting is bad by itself or in relation to others.
	ErrConfig = errors.New("bad configuration")
)

func configError(format string, args ...any) error {
	return fmt.Errorf("redlock: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// Outcome is how one node voted.
type Outcome int

// The outcomes of a vote.
const (
	// Unknown: the request was sent, and no answer came in time. It may have
	// been executed, or be later; what it did is undone.
	Unknown Outcome = iota
	// Granted: the node did what was asked.
	Granted
	// Refused: the node answered, and did not do it.
	Refused
	// NotSent: nothing was sent, or the node did not execute it.
	NotSent
)

// String is the outcome in words: "granted", "refused", "not sent", "unknown".
func (o Outcome) String() string {
	switch o {
	case Granted:
		return "granted"
	case Refused:
		return "refused"
	case NotSent:
		return "not sent"
	default:
		return "unknown"
	}
}

// Vote is one node's part in a ballot.
type Vote struct {
	Index     int           // the node's place in the list given to New or Open
	Node      string        // the node's name in errors and logs
	Outcome   Outcome       // how it voted
	Holder    string        // the owner found there, when refused for a holder
	Remaining time.Duration // that holder's ttl left at the node; 0: it did not tell; negative: it never expires
	Cause     error         // why it is refused, not sent, or unknown, if more is known
}

// err is the vote as an error; nil if granted.
func (v *Vote) err() error {
	switch {
	case v.Outcome == Granted:
		return nil
	case v.Cause != nil:
		return printableError{fmt.Errorf("%s: %v: %w", v.Node, v.Outcome, v.Cause)}
	case v.Holder != "":
		return fmt.Errorf("%s: %v: held by %q", v.Node, v.Outcome, v.Holder)
	default:
		return fmt.Errorf("%s: %v", v.Node, v.Outcome)
	}
}

// HeldError says who holds the lock. errors.Is finds ErrHeld in it; errors.As
// takes both *HeldError and HeldError. A key with an empty value, which only other
// programs set, has the holder "(an empty value)".
type HeldError struct {
	Name      string        // the lock's
	Holder    string        // its owner, as Lease.Owner has it; empty while the lock is handed over to the first in line
	Remaining time.Duration // until the holder's keys end, unless it extends them; 0: not known; negative: never
	Place     int           // of who waited, in the line of those who wait; 1 is the first, 0: not in line
	Votes     []Vote        // each node's part
}

// Error names the lock, the holder and its time left.
func (e HeldError) Error() string {
	left := " for " + e.Remaining.String()
	switch {
	case e.Remaining == 0:
		left = ""
	case e.Remaining < 0:
		left = " without an end (its key has no ttl)"
	}
	who := fmt.Sprintf("held by %q", e.Holder)
	if e.Holder == "" {
		who = "kept for the first in line"
	}
	place := ""
	if e.Place > 0 {
		place = fmt.Sprintf(", place %d in line", e.Place)
	}
	return fmt.Sprintf("redlock: lock %q: %s%s%s", e.Name, who, left, place)
}

// Is reports that the error is ErrHeld.
func (e HeldError) Is(target error) bool { return target == ErrHeld }

// As lets errors.As fill a HeldError by value.
func (e HeldError) As(target any) bool { return fill(target, e) }

// QuorumError says how each node voted when no quorum was reached. errors.Is
// finds ErrNoQuorum in it, and every node's cause; errors.As takes both
// *QuorumError and QuorumError.
type QuorumError struct {
	Op      string        // "lock", "extend", "unlock", "ping", "inspect" or "force unlock"
	Name    string        // the lock's; empty for a ping
	Need    int           // the quorum
	Elapsed time.Duration // how long the ballot took
	Late    bool          // a quorum granted, but too late: no validity was left
	Votes   []Vote        // each node's part, in the order given to New or Open
}

// Error tells the count, then each node's outcome and cause.
func (e QuorumError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: " + e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	granted := e.count(Granted)
	fmt.Fprintf(&b, ": no quorum: %d of %d nodes granted, %d needed", granted, len(e.Votes), e.Need)
	if e.Late {
		fmt.Fprintf(&b, ", but it took %v and no validity was left", e.Elapsed)
	}
	for i := range e.Votes {
		if err := e.Votes[i].err(); err != nil {
			b.WriteString("; " + err.Error())
		}
	}
	return b.String()
}

// Is reports that the error is ErrNoQuorum.
func (e QuorumError) Is(target error) bool { return target == ErrNoQuorum }

// As lets errors.As fill a QuorumError by value.
func (e QuorumError) As(target any) bool { return fill(target, e) }

// Unwrap gives the nodes' errors, gathered.
func (e QuorumError) Unwrap() error {
	var all *multierror.Error
	for i := range e.Votes {
		if err := e.Votes[i].err(); err != nil {
			all = multierror.Append(all, err)
		}
	}
	return all.ErrorOrNil()
}

func (e *QuorumError) count(o Outcome) int {
	n := 0
	for i := range e.Votes {
		if e.Votes[i].Outcome == o {
			n++
		}
	}
	return n
}

// hopeless tells that waiting cannot help: so many nodes fail for a permanent
// reason that the others are no quorum.
func (e *QuorumError) hopeless() bool {
	n := 0
	for i := range e.Votes {
		if node.IsPermanent(e.Votes[i].Cause) {
			n++
		}
	}
	return n > len(e.Votes)-e.Need
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
