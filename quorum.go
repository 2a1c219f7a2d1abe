package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// majority returns the quorum of n nodes: N/2+1 of the configured nodes, never of the reachable
// ones. Any two quorums have a node in common.
func majority(n int) int { return n/2 + 1 }

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
	Holder    string        // the owner found there, when refused for a holder; "" for readers
	Shared    bool          // readers hold the lock there
	Remaining time.Duration // that holder's ttl left at the node, or the longest reader's; 0: it did not tell; negative: it never expires
	Cause     error         // why it is refused, not sent, or unknown, if more is known
}

// err is the vote as an error; nil if granted.
func (v *Vote) err() error {
	switch {
	case v.Outcome == Granted:
		return nil
	case v.Cause != nil:
		return printableError{fmt.Errorf("%s: %v: %w", v.Node, v.Outcome, v.Cause)}
	case v.Shared:
		return fmt.Errorf("%s: %v: held by readers", v.Node, v.Outcome)
	case v.Holder != "":
		return fmt.Errorf("%s: %v: held by %q", v.Node, v.Outcome, printable.Cut(v.Holder))
	default:
		return fmt.Errorf("%s: %v", v.Node, v.Outcome)
	}
}

// HeldError names the holder of the lock. errors.Is finds ErrHeld in it; errors.As
// takes both *HeldError and HeldError. A key with an empty value, which only other
// programs set, has the holder "(an empty value)".
type HeldError struct {
	Name      string        // the lock's
	Holder    string        // its owner, as Lease.Owner has it; empty if Shared is set, and while the lock is reserved for the first waiter
	Label     string        // the readable part of Holder, WithOwnerLabel's; empty if it has none
	Shared    bool          // readers hold the lock; a reader is refused so if a writer waits ahead of it
	Permits   bool          // too few permits of a semaphore are free
	Resting   bool          // the Holder's lease has ended, and the lock rests for Remaining: see WithMinHold
	Remaining time.Duration // until the holder's keys end, unless it extends them, or those of the longest reader; 0: not known; negative: never
	Position  int           // of the caller in the wait queue, if it waited; 1 is the first, 0: it did not stand there
	Votes     []Vote        // each node's part
}

// Error names the lock, the holder and its time left.
func (e HeldError) Error() string {
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

// Is reports that the error is ErrHeld.
func (e HeldError) Is(target error) bool { return target == ErrHeld }

// As lets errors.As fill a HeldError by value.
func (e HeldError) As(target any) bool { return fill(target, e) }

// QuorumError says how each node voted when no quorum was reached. errors.Is
// finds ErrNoQuorum in it, and every node's cause; errors.As takes both
// *QuorumError and QuorumError.
type QuorumError struct {
	Op      string        // "lock", "extend", "downgrade", "unlock", "ping", "inspect", "list", "ask", "handoff", "resume" or "force unlock"
	Name    string        // the lock's; the pattern where nodes do not list their keys; empty for a ping
	Need    int           // the quorum
	Elapsed time.Duration // how long the ballot took
	Late    bool          // a quorum granted, but too late: no validity was left
	Votes   []Vote        // each node's part, in the order given to New or Open

	// RetryAfter is when enough nodes vote again that do not yet, if the nodes know that: their
	// quarantines are over then. 0: it is not known.
	RetryAfter time.Duration

	split bool // the nodes that granted chose different permits of a semaphore
}

// Error has the count, then each node's outcome and cause.
func (e QuorumError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: " + e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", printable.Cut(e.Name))
	}
	granted := e.count(Granted)
	fmt.Fprintf(&b, ": no quorum: %d of %d nodes granted, %d needed", granted, len(e.Votes), e.Need)
	switch {
	case e.Late:
		fmt.Fprintf(&b, ", but it took %v and no validity was left", e.Elapsed)
	case granted >= e.Need && e.split:
		b.WriteString(", but not the same permits")
	case granted >= e.Need:
		b.WriteString(", but only as the call ended")
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

// votesOf returns the nodes' votes in a ballot that failed.
func votesOf(f *quorum.Failure) []Vote {
	if f == nil {
		return nil
	}
	all := make([]Vote, len(f.Answers))
	for i := range f.Answers {
		a := &f.Answers[i]
		all[i] = voteOf(f.Nodes[i].Index, f.Nodes[i].Name, a)
		if a.Count == quorum.Pending {
			all[i].Cause = notAwaited(f)
		}
	}
	return all
}

// errNoAnswerYet is why a vote is unknown in a ballot that was still open.
var errNoAnswerYet = errors.New("no answer yet")

// notAwaited returns why a node's vote was still out when the ballot failed.
func notAwaited(f *quorum.Failure) error {
	refused := f.Count(func(a *quorum.Answer) bool { return a.Outcome == quorum.Refused })
	failed := f.Count(func(a *quorum.Answer) bool { return a.Outcome != quorum.Confirmed && a.Count != quorum.Pending })
	if !f.Decided {
		return errNoAnswerYet
	}
	if refused > len(f.Answers)-f.Need {
		return fmt.Errorf("not awaited, since %d other nodes had refused", refused)
	}
	return fmt.Errorf("not awaited, since %d other nodes had not granted it", failed)
}

// errFewPermits is why a node refused an attempt at a semaphore.
var errFewPermits = errors.New("too few permits are free")

func voteOf(index int, node string, a *quorum.Answer) Vote {
	v := Vote{Index: index, Node: node, Outcome: Outcome(a.Outcome), Holder: a.Holder, Remaining: a.Remaining, Cause: a.Cause}
	if a.Holder == protocol.Shared {
		v.Holder, v.Shared = "", true
	}
	if a.Holder == protocol.Permits {
		v.Holder, v.Cause = "", errFewPermits
	}
	return v
}

// quorumError returns a ballot that failed as an error.
func quorumError(name string, f *quorum.Failure) *QuorumError {
	return &QuorumError{Op: f.Op, Name: name, Need: f.Need, Elapsed: f.Elapsed, Late: f.Late, Votes: votesOf(f),
		RetryAfter: f.VotesIn(), split: f.IsSplit()}
}

// refusalError returns why a lock was refused as an error.
func refusalError(name string, r *lock.Refusal) error {
	if !r.Held {
		return quorumError(name, r.Votes)
	}
	return &HeldError{Name: name, Holder: r.Holder, Label: protocol.LabelOf(r.Holder), Shared: r.Shared, Permits: r.Permits, Resting: r.Resting,
		Remaining: r.Remaining, Position: r.Standing.Position, Votes: votesOf(r.Votes)}
}

// failureError returns why a call got no lock as an error, the same one at each call; nil
// without a failure.
func failureError(name string, f *lock.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Err != nil:
	case f.Cause == nil:
		f.Err = refusalError(name, f.Refusal)
	case f.Refusal == nil:
		f.Err = &waitError{op: "lock", name: name, cause: f.Cause}
	default:
		f.Err = &waitError{op: "lock", name: name, cause: f.Cause, last: refusalError(name, f.Refusal)}
	}
	return f.Err
}
