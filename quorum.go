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

// Outcome is how one node voted:
//
//   - "granted": the node executed the request.
//   - "refused": the node answered, and refused.
//   - "unknown": no answer came in time; the request may be executed, and is undone.
//   - "not sent": nothing was sent, or the node did not execute it.
type Outcome string

// outcomes are the public words for how a node voted.
var outcomes = [...]Outcome{
	quorum.Unknown:   "unknown",
	quorum.Confirmed: "granted",
	quorum.Refused:   "refused",
	quorum.NotSent:   "not sent",
}

// Vote is one node's part in a ballot.
type Vote struct {
	Index     int    // in the list given to New or Open
	Node      string // its name in errors and logs
	Outcome   Outcome
	Holder    string        // the owner found there, if any; "" for readers
	Shared    bool          // readers hold the lock there
	Remaining time.Duration // until the holder's keys expire there; 0: unknown; negative: never
	Cause     error         // why it was not granted, if known
}

// err is the vote as an error; nil if granted.
func (v *Vote) err() error {
	switch {
	case v.Outcome == "granted":
		return nil
	case v.Cause != nil:
		return printableError{fmt.Errorf("%s: %s: %w", v.Node, v.Outcome, v.Cause)}
	case v.Shared:
		return fmt.Errorf("%s: %s: held by readers", v.Node, v.Outcome)
	case v.Holder != "":
		return fmt.Errorf("%s: %s: held by %q", v.Node, v.Outcome, printable.Cut(v.Holder))
	default:
		return fmt.Errorf("%s: %s", v.Node, v.Outcome)
	}
}

// QuorumError lists the votes when no quorum was reached. errors.Is finds ErrNoQuorum and each
// cause in it. While no quorum can vote until a person acts, a client makes at most ten attempts a
// second, for all its callers of Lock and TryLock together.
type QuorumError struct {
	// Op is "lock", "extend", "downgrade", "unlock", "ping", "inspect", "list", "ask", "transfer", "resume" or
	// "force unlock".
	Op      string
	Name    string        // the lock's; a pattern for a list; may be empty
	Need    int           // the quorum
	Elapsed time.Duration // duration of the ballot
	Late    bool          // a quorum granted, but no validity was left
	Votes   []Vote        // in the order given to New or Open

	// RetryAfter is the time until enough nodes vote again; 0: unknown.
	RetryAfter time.Duration

	split bool // the nodes that granted chose different permits of a semaphore
}

// Error has the count, and each failed vote.
func (e *QuorumError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: " + e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", printable.Cut(e.Name))
	}
	granted := e.count("granted")
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

// Is reports whether target is ErrNoQuorum.
func (e *QuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Unwrap returns the nodes' errors.
func (e *QuorumError) Unwrap() error {
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
	v := Vote{Index: index, Node: node, Outcome: outcomes[a.Outcome], Holder: a.Holder, Remaining: a.Remaining, Cause: a.Cause}
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
		Remaining: r.Remaining, Position: r.Standing.Position, Votes: votesOf(r.Votes), heldFor: r.HeldFor}
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
