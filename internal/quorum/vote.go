package quorum

import (
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Outcome is how one node voted, for reports.
type Outcome int8

const (
	Unknown   Outcome = iota // sent, and not answered in time: it may have been executed, or may be executed later
	Confirmed                // the node did what was asked
	Refused                  // the node answered, and did not do it
	NotSent                  // nothing was sent, or the node did not execute it
)

// Answer is what a node's reply means for a ballot, and what the reply says beside that.
type Answer struct {
	Count     Count
	Outcome   Outcome
	Kind      protocol.Kind // of the reply; 0: there was none, or plain commands asked
	Resting   bool          // the holder's lease has ended, and the lock rests
	Wanted    bool          // a renewal: others want the lock
	Holder    string        // the other owner that has the key; "": none
	Remaining time.Duration // that key's ttl left: negative if it has no end, or 0 if the node did not report it
	Token     int64         // the node's count, with a grant
	Slots     string        // of a semaphore: those that a grant is about, with commas between; of a refusal, their owners: see Answer.ownerOf
	Cause     error         // why there is no confirmation, if that is known

	Place protocol.Place // of a waiter that was refused
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

// Receive implements pipe.Receiver: it reads a node's answer, acts on errors, and counts
// the answer.
func (v *Vote) Receive(reply any, err error) {
	b := v.ballot
	v.Node.Status.Answered(err)
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
	if err == nil && a.Outcome != Unknown {
		v.Leave()
	}
}

// Count counts a node's answer, after the Watcher has seen it.
func (v *Vote) Count(a Answer) {
	if !v.Node.Believes(a.Token) {
		a = Answer{Count: NoAnswer, Outcome: Refused, Cause: node.ErrDamaged}
	}
	switch a.Cause {
	case admission.ErrForgot:
		v.Node.Forgot(v.Right)
	case admission.ErrOtherList:
		v.Node.Nudge() // it shows its list
	}
	if a.Count == Yes && v.ballot.Attempt {
		v.Node.Status.Accept()
	}
	if w := v.ballot.Watcher; w != nil {
		a = w.Answered(v, a)
	}
	v.ballot.count(v, a)
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
	b := u.vote.ballot
	b.count(u.vote, b.Reader.Read(u.vote, reply, err))
}

// Votes are the votes of one ballot, by node. Their methods are called under the ballot's
// lock.
type Votes []Vote

// leader returns the first answer that names the other owner that has the key at the
// greatest number of nodes, and that number; nil and 0 if no other owner was seen. The owners of a
// semaphore's slots count as one, for a ballot that asks for so many permits: see holding.
func (v Votes) leader(permits int) (leader *Answer, nodes int) {
	for i := range v {
		a := &v[i].answer
		if a.Count != No || a.Holder == "" || leader != nil && leader.Holder == a.Holder {
			continue
		}
		if n := v.showing(a.Holder, permits); n > nodes {
			leader, nodes = a, n
		}
	}
	return leader, nodes
}

// showing returns the number of nodes at which another owner has the key.
func (v Votes) showing(holder string, permits int) (nodes int) {
	if holder == protocol.Permits {
		return v.holding(permits)
	}
	for i := range v {
		if a := &v[i].answer; a.Count == No && a.Holder == holder {
			nodes++
		}
	}
	return nodes
}

// granted returns the slots that the greatest number of nodes granted, and that number. Grants of
// any lock but a semaphore are all about the same.
func (v Votes) granted() (slots string, nodes int) {
	for i := range v {
		a := &v[i].answer
		if a.Count != Yes || nodes > 0 && a.Slots == slots {
			continue
		}
		n := 0
		for j := range v {
			if o := &v[j].answer; o.Count == Yes && o.Slots == a.Slots {
				n++
			}
		}
		if n > nodes {
			slots, nodes = a.Slots, n
		}
	}
	return slots, nodes
}

// census returns the votes by outcome, for a ballot that began at start and needs a quorum
// of need.
func (v Votes) census(start time.Duration, need int) Census {
	c := Census{Start: start, Nodes: len(v), Need: need}
	for i := range v {
		if a := &v[i].answer; a.Count != Pending {
			c.Votes[a.Outcome]++
		}
	}
	return c
}
