package quorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// yieldAbove is how many unanswered commands of others on one connection make a caller yield
// to the scheduler before it writes, so that more callers join its flush. One attempt is
// up to five commands.
const yieldAbove = 6

// Cluster is the nodes that vote together.
type Cluster struct {
	Roster *atomic.Pointer[admission.Roster]
	Clock  system.Clock

	waits sync.Pool // of *wait
}

// Nodes returns the client's nodes, by index.
func (c *Cluster) Nodes() []*admission.Member { return c.Roster.Load().Nodes }

// Need returns how many nodes are a quorum.
func (c *Cluster) Need() int { return c.Roster.Load().Need }

// IsUnfit reports whether so many nodes cannot vote until a person acts that the others are no quorum.
func (c *Cluster) IsUnfit() bool {
	unfit, roster := 0, c.Roster.Load()
	for _, n := range roster.Nodes {
		if _, err := n.Right(0); node.IsPermanent(err) {
			unfit++
		}
	}
	return unfit > len(roster.Nodes)-roster.Need
}

// Question is what a ballot asks, and how its answers are read, counted and acted on.
type Question struct {
	Op      string        // for errors
	Owner   string        // of the attempt or lease that it is about
	Start   time.Duration // read before anything is queued
	Timeout time.Duration // for how long a node may be silent before the ballot leaves it out

	Rule   Rule
	Reader Reader

	// Attempt is set if it asks for a lock.
	Attempt bool

	// Timed has the ballot measure how long a quorum of the nodes takes to answer.
	Timed bool

	// Permits is how many permits of a semaphore it asks for; 0: it asks for no permits.
	Permits uint16

	// Until LateUntil, an answer after the verdict can make it Revoked. 0: never.
	LateUntil time.Duration

	Watcher  Watcher  // nil: none
	Recorder Recorder // nil: no hook is set
	Undo     Undoer   // of a release; nil for other ballots
	Spare    Spare    // gets the ballot back; nil: the garbage collector does
}

// Undoer makes the undo of a release that a node has not confirmed. A ballot must have one
// if Queue is given nodes that may hold the attempt.
type Undoer interface{ NewUndo() *node.Undo }

// Reader reads a node's reply, or the error that came in its place.
type Reader interface {
	Read(v *Vote, reply any, err error) Answer
}

// Watcher is informed of votes and of the verdict, in the goroutines of the connections'
// readers. Its methods must not block.
type Watcher interface {
	// Answered is called once for every answer that a node gave, late ones included, and
	// returns what it counts as. It is not called for votes that Queue or Close set, nor
	// for the confirmation of an undo.
	Answered(v *Vote, a Answer) Answer

	// Decided is called when a vote has made the verdict final, or, with late, when one
	// that came after the verdict has made it Revoked. A verdict that Queue, Close or a
	// timer makes is not reported.
	Decided(v Verdict, late bool)
}

// Recorder records a ballot for hooks. It is called under the ballot's lock, and must not
// block. Ended is called once, when the verdict becomes final; a later Revoked is not
// reported.
type Recorder interface {
	Begun(b *Ballot)
	Voted(v *Vote, a Answer)
	VotedLate(v *Vote, a Answer)
	Ended(verdict Verdict, c Census)
}

// Census is a ballot's votes when its verdict became final.
type Census struct {
	Start       time.Duration // of the ballot
	Nodes, Need int
	Votes       [NotSent + 1]int // by Outcome; votes that are still out are in none
}

// Ballot is one question to all nodes, and their votes.
type Ballot struct {
	Question
	Votes Votes // their answers are protected by mu

	cluster *Cluster
	roster  *admission.Roster
	inline  [5]Vote // room for Votes: one allocation less
	users   users

	mu      sync.Mutex // protects what follows, and the votes' answers
	wait    *wait      // of the caller of Await; nil: nobody waits
	tally   Tally
	verdict Verdict
	closed  bool          // votes that come now are too late
	heard   time.Duration // if it is timed: from its start until a quorum had answered; 0: it has not
	sent    NodeSet       // nodes that did or may yet execute it
}

// Under makes b, which has not begun, a ballot of these nodes and this quorum. Without it, the present ones count.
func (b *Ballot) Under(r *admission.Roster) { b.roster = r }

// Roster returns whose votes the ballot counts.
func (b *Ballot) Roster() *admission.Roster { return b.roster }

// Begin makes b a ballot over all nodes. b must be new, or its memory cleared.
func (c *Cluster) Begin(b *Ballot, q Question) {
	if b.roster == nil {
		b.roster = c.Roster.Load()
	}
	roster := b.roster
	b.Question, b.cluster = q, c
	if n := len(roster.Nodes); n <= len(b.inline) {
		b.Votes = b.inline[:n]
		b.users.Store(1<<theMaker | (1<<n - 1))
	} else {
		b.Votes = make([]Vote, n)
	}
	b.tally.Need, b.tally.Nodes[Pending] = roster.Need, len(b.Votes)
	for i, n := range roster.Nodes {
		v := &b.Votes[i]
		v.ballot, v.Node, v.Call.To = b, n, v
		if NodeSet(roster.Strangers).Has(i) {
			v.answer.Count = Outside
			b.tally.Nodes[Pending]--
			b.tally.Nodes[Outside]++
		}
	}
}

// SetCommand sets the same command for all votes.
func (b *Ballot) SetCommand(command string, args []any) {
	for i := range b.Votes {
		b.Votes[i].Call.Command, b.Votes[i].Call.Args = command, args
	}
}

// AskVoters fills in the nodes' rights to vote for a lease of this ttl. All rights are of one list of masters, whose quorum
// the ballot needs: votes of two lists are never added up.
func (b *Ballot) AskVoters(ttl time.Duration) {
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Right, v.Skip = v.Node.Right(ttl)
		if v.Skip == nil && v.Right.List != b.roster.List {
			v.Right, v.Skip = nil, admission.ErrOtherList
		}
	}
}

// List returns the list of masters that vote; nil where admission is off.
func (b *Ballot) List() *protocol.List { return b.roster.List }

// Queue puts the ballot into the nodes' queues: what is queued for a node later is
// executed there later. It does not block; Flush must follow soon, with its result.
//
// Nodes in must may hold the attempt that a release is about: they get it even when they
// are stalled, or as an undo. The others get a ballot only when they are healthy, and only
// if all is set.
func (b *Ballot) Queue(must NodeSet, all bool) (yield bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Recorder != nil {
		b.Recorder.Begun(b)
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		v.must = must.Has(i)
		if v.Skip == nil && v.answer.Count == Outside && !v.must {
			v.Skip = admission.ErrNoMaster
		}
		if v.Skip != nil || !all && !v.must {
			b.set(v, Answer{Count: NoAnswer, Outcome: NotSent, Cause: v.Skip})
			b.leaveUnasked(i)
			continue
		}
		p, load, err := v.Node.Queue(&v.Call, v.Right.On(), b.Start, b.Timeout, v.must)
		if err != nil {
			b.set(v, Answer{Count: NoAnswer, Outcome: NotSent, Cause: err})
			if v.must {
				v.Node.Undo(b.Undo.NewUndo())
			} else {
				b.leaveUnasked(i)
			}
			continue
		}
		v.writer = p
		b.sent.Add(i)
		yield = yield || load >= yieldAbove
	}
	b.decide()
	return yield
}

// SetAnswers makes the ballot one whose votes came in another way: nodes in sent may have
// executed it, and answer returns the right and the answer of each node.
func (b *Ballot) SetAnswers(sent NodeSet, answer func(node int) (*admission.VoteRight, Answer)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = sent
	if b.Recorder != nil {
		b.Recorder.Begun(b)
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		var a Answer
		v.Right, a = answer(i)
		b.set(v, a)
	}
	b.decide()
}

// Flush writes the queues in which this ballot was the first.
func (b *Ballot) Flush(yield bool) {
	if yield {
		runtime.Gosched()
	}
	for i := range b.Votes {
		if p := b.Votes[i].writer; p != nil {
			p.Flush()
		}
	}
}

// Send queues and flushes.
func (b *Ballot) Send(must NodeSet, all bool) { b.Flush(b.Queue(must, all)) }

// count counts a vote, and informs the watcher if this vote made the verdict final or, after it, Revoked.
func (b *Ballot) count(v *Vote, a Answer) {
	b.mu.Lock()
	if v.answer.Count == Outside {
		b.mu.Unlock()
		return
	}
	var decided bool
	late := b.closed || v.answer.Count != Pending
	if late {
		decided = b.countLate(v, a)
	} else {
		b.set(v, a)
		b.decide()
		decided = b.closed
	}
	verdict := b.verdict
	b.mu.Unlock()
	if decided && b.Watcher != nil {
		b.Watcher.Decided(verdict, late)
	}
}

// countLate counts a vote that came after the verdict among the node's, and records it for hooks. It
// reports whether the verdict is Revoked now: the ballot is a renewal, and a quorum had lost the lease.
// An answer that comes after LateUntil proves nothing: by then the keys may simply have expired. Called
// under b.mu.
func (b *Ballot) countLate(v *Vote, a Answer) (revoked bool) {
	if v.answer.Count == Pending {
		v.Node.Counters.Votes[a.Outcome].Add(1)
	} else {
		v.Node.Counters.Late.Add(1) // it was counted as unknown before
	}
	if b.Recorder != nil {
		b.Recorder.VotedLate(v, a)
	}
	switch {
	case b.LateUntil == 0 || b.verdict == Revoked:
		return false
	case b.verdict == Granted && a.Count == Yes: // it shows no loss
		return false
	case b.cluster.Clock() >= b.LateUntil:
		return false
	}
	b.tally.Nodes[v.answer.Count]--
	b.tally.Nodes[a.Count]++
	v.answer = a
	if b.rule() != Revoked {
		return false
	}
	b.verdict = Revoked
	return true
}

// set moves a vote from Pending to its answer, counts it among the node's, and records it for hooks. Called under b.mu.
func (b *Ballot) set(v *Vote, a Answer) {
	if v.answer.Count == Outside {
		a.Count = Outside
	}
	b.tally.Nodes[v.answer.Count]--
	b.tally.Nodes[a.Count]++
	v.answer = a
	if a.Outcome != NotSent || a.Cause != nil { // else the ballot was not meant for the node: that is no vote
		v.Node.Counters.Votes[a.Outcome].Add(1)
		if b.Recorder != nil {
			b.Recorder.Voted(v, a)
		}
	}
	if b.Timed && b.heard == 0 && b.tally.answered() >= b.tally.Need {
		b.heard = max(b.cluster.Clock()-b.Start, 1)
	}
}

// rule applies the Rule to the votes so far. Called under b.mu.
func (b *Ballot) rule() Verdict {
	t := &b.tally
	if t.Grants = t.Nodes[Yes]; b.Permits > 0 {
		_, t.Grants = b.Votes.granted()
	}
	if t.Nodes[No] > 0 {
		_, t.Rival = b.Votes.leader(int(b.Permits))
	}
	return b.Rule(t)
}

// decide takes the verdict of the votes so far. Called under b.mu.
func (b *Ballot) decide() {
	verdict := b.rule()
	if verdict == b.verdict {
		return
	}
	b.verdict = verdict
	if b.closed = verdict.IsFinal(); b.closed && b.Recorder != nil {
		b.Recorder.Ended(verdict, b.Votes.census(b.Start, b.tally.Need))
	}
	if b.wait == nil {
		return
	}
	select {
	case b.wait.changed <- struct{}{}:
	default: // Await has not read the last signal yet; it will read the newest verdict
	}
}

// Heard returns how long a quorum of the nodes took to answer; 0 if it has not answered, or the ballot is
// not timed.
func (b *Ballot) Heard() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard
}

// Verdict returns the verdict so far.
func (b *Ballot) Verdict() Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.verdict
}

// ErrCallEnded is the cause of votes still out when the caller's context ended.
var ErrCallEnded = errors.New("no answer before the call was ended")

// Close ends the ballot: votes still out become unknown, for the reason why.
func (b *Ballot) Close(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for i := range b.Votes {
		if v := &b.Votes[i]; v.answer.Count == Pending {
			b.set(v, Answer{Count: NoAnswer, Outcome: Unknown, Cause: why})
		}
	}
	b.decide()
}

// lateVoteGrace is how long a waiter waits for the remaining votes, in addition to the
// time that a quorum of votes took. After it, the waiter rolls back at the nodes that have
// not answered.
const lateVoteGrace = time.Millisecond

// A wait is what one caller of Await waits at. It is used again. A vote that comes late does not reach it:
// votes find it in the ballot, under the ballot's lock, and Await takes it from there before it gives it back.
type wait struct {
	changed chan struct{} // holds one signal after changes of the verdict
	timer   *time.Timer
}

// beginWait has changes of the verdict signalled, and a timer run for d.
func (b *Ballot) beginWait(d time.Duration) *wait {
	w, used := b.cluster.waits.Get().(*wait)
	if used {
		w.timer.Reset(d)
	} else {
		w = &wait{changed: make(chan struct{}, 1), timer: time.NewTimer(d)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wait = w
	return w
}

// endWait ends the wait, and gives it back.
func (b *Ballot) endWait(w *wait) {
	b.mu.Lock()
	b.wait = nil
	b.mu.Unlock()
	w.timer.Stop()
	select {
	case <-w.changed:
	default:
	}
	select {
	case <-w.timer.C: // with GODEBUG=asynctimerchan=1 it may hold the instant of a timer that was stopped
	default:
	}
	b.cluster.waits.Put(w)
}

// Await returns the final verdict, at the latest after timeout; then the votes still out
// are unknown. When ctx ends first, it returns ctx's cause. It calls impossible as soon as
// a quorum has become impossible, at most twice: for Impossible and for Failed. impossible
// may be nil. Only one goroutine may call it.
func (b *Ballot) Await(ctx context.Context, timeout time.Duration, impossible func()) (Verdict, error) {
	w := b.beginWait(timeout)
	defer b.endWait(w)
	for last := Open; ; {
		b.mu.Lock()
		v := b.verdict
		b.mu.Unlock()
		if v != last {
			last = v
			if impossible != nil && (v == Impossible || v == Failed) {
				impossible()
			}
			if v.IsFinal() {
				return v, nil
			}
			if v == HeldElsewhere {
				if spent := b.cluster.Clock() - b.Start; spent+lateVoteGrace < timeout-spent { // else the timer ends earlier
					timeout = spent + lateVoteGrace
					w.timer.Reset(timeout)
				}
			}
		}
		select {
		case <-w.changed:
		case <-w.timer.C:
			b.Close(fmt.Errorf("no answer within %v", timeout))
		case <-ctx.Done():
			b.Close(ErrCallEnded)
			return Failed, life.EndOf(ctx)
		}
	}
}

// Answers returns the nodes' answers so far, by index, under the ballot's lock: the loop
// must not call methods of the ballot.
func (b *Ballot) Answers() iter.Seq2[int, *Answer] {
	return func(yield func(int, *Answer) bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range b.Votes {
			if !yield(i, &b.Votes[i].answer) {
				return
			}
		}
	}
}

// Sent returns the nodes that may hold the attempt.
func (b *Ballot) Sent() NodeSet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}

// Tally returns the votes so far.
func (b *Ballot) Tally() Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally
}

// HasQuorum reports whether a quorum of the answers satisfies is.
func (b *Ballot) HasQuorum(is func(*Answer) bool) bool {
	n := 0
	for _, a := range b.Answers() {
		if a.Count != Outside && is(a) {
			n++
		}
	}
	return n >= b.tally.Need
}

// Leader returns the other owner that has the key at the greatest number of nodes, and that
// number; "" and 0 if no other owner was seen.
func (b *Ballot) Leader() (holder string, nodes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	leader, nodes := b.Votes.leader(int(b.Permits))
	if leader == nil {
		return "", 0
	}
	return leader.Holder, nodes
}

// MayHold returns the nodes that were sent the attempt and did not disprove it: they
// granted it, were silent, or answered with an error (a script can fail after it has set
// the key).
func (b *Ballot) MayHold() NodeSet {
	b.mu.Lock()
	defer b.mu.Unlock()
	var set NodeSet
	for i := range b.Votes {
		a := &b.Votes[i].answer
		if b.sent.Has(i) && a.Count != No && a.Outcome != NotSent {
			set.Add(i)
		}
	}
	return set
}

// Greatest returns the greatest token among the grants, and how many nodes granted with it. Of a
// semaphore, only grants of the slots that most nodes granted count.
func (b *Ballot) Greatest() (token int64, agreed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slots := ""
	if b.Permits > 0 {
		slots, _ = b.Votes.granted()
	}
	for i := range b.Votes {
		switch a := &b.Votes[i].answer; {
		case a.Count != Yes || a.Slots != slots || a.Token < token:
		case a.Token > token:
			token, agreed = a.Token, 1
		default:
			agreed++
		}
	}
	return token, agreed
}
