package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// ballotKind is what a ballot asks for. It reads the replies.
type ballotKind struct {
	op      string // for errors
	command string
	rule    quorum.Rule
}

var (
	acquiring = &ballotKind{op: "lock", command: "EVALSHA", rule: quorum.Acquire}
	claiming  = &ballotKind{op: "lock", command: "EVALSHA", rule: quorum.AcquirePatiently} // acquiring by a waiter, without a token
	raising   = &ballotKind{op: "lock", command: "EVALSHA", rule: quorum.Confirm}
	seizing   = &ballotKind{op: "force unlock", command: "EVAL", rule: quorum.Confirm}
	renewing  = &ballotKind{op: "extend", command: "EVALSHA", rule: quorum.Renew}
	releasing = &ballotKind{op: "unlock", command: "EVALSHA", rule: quorum.Confirm}
	pinging   = &ballotKind{op: "ping", command: "PING", rule: quorum.Confirm}
)

// ballot is one question about a lock to all nodes.
type ballot struct {
	quorum.Ballot

	mutex  *Mutex
	ticket string       // of a release: of a waiter that leaves the queue with it
	trace  *ballotTrace // nil where no hook is to know

	// Of an attempt.
	ttl     time.Duration // of the keys that it sets
	undoing *ballot       // its rollback; its maker's own
	waiter  *waiter       // whose attempt it is; nil for a caller that is not queued
	bid     *bid          // of a waiter's attempt: how it may be executed late

	// Of a renewal.
	lease     *holding
	scheduled bool // nobody awaits the verdict
}

// newBallot makes a ballot over all nodes, which begins at start.
func (m *Mutex) newBallot(kind *ballotKind, owner string, args []any, start time.Duration) *ballot {
	b := &ballot{mutex: m, ttl: m.opts.ttl}
	m.client.cluster.Begin(&b.Ballot, quorum.Question{
		Op:      kind.op,
		Owner:   owner,
		Start:   start,
		Timeout: m.opts.voteTimeout(),
		Rule:    kind.rule,
		Reader:  kind,
	})
	if kind == releasing {
		b.Undo = b
	}
	if b.trace = m.traceBallot(kind, owner); b.trace != nil {
		b.Recorder = b.trace
	}
	b.SetCommand(kind.command, args)
	return b
}

// NewUndo implements quorum.Undoer.
func (b *ballot) NewUndo() *node.Undo { return b.mutex.undoOf(b.Owner, b.ticket) }

// undoOf returns the undo of an owner's attempt. With a ticket it leaves the queue there,
// also if the waiter is to stay elsewhere: a waiter that still waits rejoins with its next
// attempt.
func (m *Mutex) undoOf(owner, ticket string) *node.Undo {
	u := &node.Undo{Owner: owner, Args: protocol.WithTicket(protocol.Release.ByText(m.key, owner), ticket), Lasts: m.opts.ttl}
	if ticket != "" {
		u.Lasts = max(u.Lasts, protocol.LineLife)
	}
	return u
}

// rollback undoes an attempt at every node that did or may yet execute it. A waiter keeps
// its place in the queues.
func (b *ballot) rollback() {
	if b.undoing != nil {
		return
	}
	if b.waiter != nil {
		b.undoing = b.waiter.yield(b.Owner, b.MayHold())
		return
	}
	b.undoing = b.mutex.undo(b.Owner, b.Sent(), b.trace, b.passedQueue())
}

// undo drops what an attempt left at the nodes, behind it on the same connections, and
// does not wait. Nodes that cannot be reached get it later. of is the attempt's trace, if
// it has one; passed reports that the attempt was granted what was free for waiters: then
// a waiter was called before that did not come.
func (m *Mutex) undo(owner string, at quorum.NodeSet, of *ballotTrace, passed bool) *ballot {
	args := protocol.Release.BySHA(m.keyArg, owner)
	if passed {
		args = append(args, "")
	}
	b := m.newBallot(releasing, owner, args, m.opts.clock())
	b.trace.follow(of)
	b.Send(at, false)
	return b
}

// passedQueue reports whether a node granted the attempt though callers wait there.
func (b *ballot) passedQueue() (passed bool) {
	for _, a := range b.Answers() {
		passed = passed || a.Holder == reservation
	}
	return passed
}

// foundNothing reports whether every node that confirmed a release had nothing of the
// attempt.
func (b *ballot) foundNothing() bool {
	return b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.NotFound })
}

// handedOver reports whether a quorum keeps the key for a waiter.
func (b *ballot) handedOver() bool {
	return b.HasQuorum(func(a *quorum.Answer) bool { return a.Handed })
}

// freed reports whether a quorum had the lease that was released, and no waiter.
func (b *ballot) freed() bool {
	return b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.Yes && !a.Handed })
}

// successor returns the owner that a quorum of the nodes named in place of this ballot's;
// "" if there is none.
func (b *ballot) successor() string {
	holder, nodes := b.Leader()
	if nodes < b.mutex.client.cluster.Need || isReservation(holder) {
		return ""
	}
	return holder
}

// report returns every node's vote, for errors.
func (b *ballot) report() []Vote {
	all := make([]Vote, 0, len(b.Votes))
	for i, a := range b.Answers() {
		all = append(all, voteOf(b.Votes[i].Node, a))
	}
	return all
}

func voteOf(n *admission.Member, a *quorum.Answer) Vote {
	return Vote{Index: n.Index, Node: n.Name, Outcome: Outcome(a.Outcome), Holder: a.Holder, Remaining: a.Remaining, Cause: a.Cause}
}

// quorumError returns the failed ballot as an error.
func (b *ballot) quorumError() *QuorumError {
	return &QuorumError{
		Op:      b.Op,
		Name:    b.mutex.name,
		Need:    b.mutex.client.cluster.Need,
		Elapsed: b.mutex.opts.clock() - b.Start,
		Votes:   b.report(),
	}
}

// awaitAttempt returns the verdict of an attempt, which is rolled back as soon as a quorum
// has become impossible.
func (b *ballot) awaitAttempt(ctx context.Context) (quorum.Verdict, error) {
	return b.Await(ctx, b.mutex.opts.voteTimeout(), b.rollback)
}
