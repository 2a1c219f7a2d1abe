package quorum

import (
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
)

// Outcome is how one node voted, for reports.
type Outcome int

const (
	Unknown   Outcome = iota // sent, and not answered in time: it may have been executed, or may be executed later
	Confirmed                // the node did what was asked
	Refused                  // the node answered, and did not do it
	NotSent                  // nothing was sent, or the node did not execute it
)

// Answer is a node's reply, as the Reader understood it. Each script has something to report of its own.
type Answer struct {
	Count      Count
	Outcome    Outcome
	Holder     string        // the other owner that has the key; "": none
	Remaining  time.Duration // that key's ttl left: negative if it has no end, or 0 if the node did not report it
	Position   int           // a waiter's, in the node's queue, of several queues the greatest; 0: none
	Nearest    int           // of several queues, the least; 0: there is one
	Ahead      int           // other clients ahead of it there, up to a limit
	Joined     bool          // its ticket was not in the node's queue before
	Challenged bool          // the clients of the writers that keep this reader out are to show that they live
	Handed     bool          // a release: the key is reserved for another waiter
	Resting    bool          // the holder's lease has ended, and the lock rests
	Wanted     bool          // a renewal: others want the lock
	Taken      bool          // a release: other readers hold the lock, or it rests and others wait
	Kept       bool          // a release of a waiter's attempt: the key is reserved for this waiter
	Token      int64         // the node's count, with a grant
	Slots      string        // of a semaphore: those that a grant is about, with commas between; of a refusal, their owners: see Answer.ownerOf
	Cause      error         // why there is no confirmation, if that is known
}

// Vote is one node's part in a ballot, and the receiver of its answer. The ballot's maker
// fills in the exported fields before it queues the ballot.
type Vote struct {
	Node  *admission.Member
	Right *admission.VoteRight // by which the node votes; nil if it needs none
	Skip  error                // why the node is not asked; nil if it is
	Call  pipe.Call

	ballot *Ballot
	writer *pipe.Pipe // the ballot's maker must flush it
	must   bool       // a release: the node may hold the attempt
	answer Answer     // protected by the ballot's mu
}

// Ballot returns the ballot of the vote.
func (v *Vote) Ballot() *Ballot { return v.ballot }

// on returns the connection on which the vote relies; nil if it may go over any.
func (v *Vote) on() *pipe.Pipe {
	if v.Right == nil {
		return nil
	}
	return v.Right.On()
}

// Receive implements pipe.Receiver: it reads a node's answer, acts on errors, and counts
// the answer.
func (v *Vote) Receive(reply any, err error) {
	b := v.ballot
	v.Node.Answered(err)
	if err != nil {
		v.Node.HandleError(err)
		v.Node.Failed(v.Right, err)
		if v.must && v.resendAsUndo(err) {
			return
		}
	}
	a := b.Reader.Read(v, reply, err)
	if err == nil && a.Outcome == Unknown {
		v.Node.Reconnect(a.Cause) // replies may be out of step with the calls
	}
	v.Count(a)
}

// Count counts a node's answer, after the Watcher has seen it.
func (v *Vote) Count(a Answer) {
	if !v.Node.Believes(a.Token) {
		a = Answer{Count: NoAnswer, Outcome: Refused, Cause: admission.ErrDamaged}
	}
	if a.Cause == admission.ErrForgot {
		v.Node.Forgot(v.Right)
	}
	if w := v.ballot.Watcher; w != nil {
		a = w.Answered(v, a)
	}
	v.decide(a)
}

// resendAsUndo makes an undo of a release that was not confirmed. It reports true if the
// undo is under way already: then the vote counts when the undo is confirmed.
func (v *Vote) resendAsUndo(err error) bool {
	if node.IsCode(err, "WRONGTYPE") {
		return false // not even a key of ours
	}
	u := v.ballot.Undo.NewUndo()
	counts := node.IsCode(err, "NOSCRIPT")
	if counts {
		u.Then, u.ByText = undone{v}, true
	}
	return v.Node.Undo(u) && counts
}

// undone is a vote that counts when the undo that took its place is confirmed.
type undone struct{ vote *Vote }

// Receive implements pipe.Receiver.
func (u undone) Receive(reply any, err error) {
	u.vote.decide(u.vote.ballot.Reader.Read(u.vote, reply, err))
}

// record counts a vote among the node's, and records it for hooks. Called under the
// ballot's lock.
func (v *Vote) record(a Answer) {
	if a.Outcome == NotSent && a.Cause == nil {
		return // the ballot was not meant for the node: that is no vote
	}
	v.Node.Counters.Votes[a.Outcome].Add(1)
	if r := v.ballot.Recorder; r != nil {
		r.Voted(v, a)
	}
}

// recordLate does the same with a vote that came after the verdict.
func (v *Vote) recordLate(a Answer) {
	if v.answer.Count == Pending {
		v.Node.Counters.Votes[a.Outcome].Add(1)
	} else {
		v.Node.Counters.Late.Add(1) // it was counted as unknown before
	}
	if r := v.ballot.Recorder; r != nil {
		r.VotedLate(v, a)
	}
}

// decide counts one answer, and informs the watcher if it decided the ballot.
func (v *Vote) decide(a Answer) {
	b := v.ballot
	if verdict, decided, late := b.count(v, a); decided && b.Watcher != nil {
		b.Watcher.Decided(verdict, late)
	}
}
