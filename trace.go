package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Trace has hooks that a Client calls in the order of the events, from one goroutine of its own,
// which calls the logger too. A slow one delays the others, and Close by a node timeout, and can lose
// events (Stats.Dropped), but delays no lease. A panic is logged and counted there. A hook that calls
// Close waits a node timeout for itself. An event's Name is that of Lease.Name. See
// docs/reference/methods.md.
type Trace struct {
	// CallStart and CallEnd report the calls that CallEvent.Op names.
	CallStart func(CallEvent)
	CallEnd   func(CallEvent)

	// BallotStart reports a question before it is sent to the nodes. BallotVote reports each vote, just
	// before BallotEnd or when it arrives later. A release that no caller awaits may have no BallotEnd.
	BallotStart func(BallotEvent)
	BallotVote  func(BallotVote)
	BallotEnd   func(BallotEvent)

	// WaitStart and WaitEnd report that a call waits for the lock, or for its turn to ask the nodes.
	WaitStart func(WaitEvent)
	WaitEnd   func(WaitEvent)

	Lease func(LeaseEvent)
	Node  func(NodeEvent)
}

// CallEvent is the start or the end of a call. The start leaves fields zero whose comment begins with
// end.
type CallEvent struct {
	Context context.Context // the caller's
	Time    time.Time       // when it began
	Call    uint64          // unique in this process
	Name    string

	// Op is "lock", "trylock", "rlock", "tryrlock", "acquire", "tryacquire", "extend", "downgrade",
	// "unlock", "ask", "transfer" or "resume".
	Op string

	Elapsed time.Duration // end: since Time
	Owner   string        // end: the lease's; "" without one
	Token   int64         // end: the lease's; 0 without one
	Shared  bool          // end: the lease is shared
	Slots   []int         // end: the lease's, of a Semaphore
	Err     error         // end: what the call returned
}

// BallotEvent is the start of a question to all nodes, or its end: the verdict is final. Its
// fields are as CallEvent's.
type BallotEvent struct {
	Context context.Context // the call's; else context.Background()
	Time    time.Time       // when it began
	Call    uint64          // 0: none
	Ballot  uint64          // unique in this process
	Name    string          // "" for a ping
	Owner   string          // of the attempt or lease; "" for a ping

	// Op is "lock", "raise" (of tokens), "extend", "unlock", "rollback", "force unlock", "transfer",
	// "resume" or "ping".
	Op string

	Elapsed time.Duration // end: until the verdict
	// End: "granted" by a quorum; "refused" by too many; "not sent" to any node; else "unknown".
	Outcome Outcome
	Granted int // end: nodes, until the verdict
	Refused int // end: nodes, until the verdict
	Silent  int // end: nodes not asked, or late
}

// BallotVote is one node's vote in a ballot.
type BallotVote struct {
	Context context.Context // as in BallotEvent, like the next six
	Time    time.Time
	Call    uint64
	Ballot  uint64
	Name    string
	Owner   string
	Op      string

	Vote
	Latency time.Duration // since the ballot's start
	Late    bool          // it came after the verdict and did not count
}

// WaitEvent is the start or the end of a wait. Its fields are as CallEvent's.
type WaitEvent struct {
	Context  context.Context // the caller's
	Time     time.Time       // when the wait began
	Call     uint64          // the call that waits
	Name     string
	Turn     bool // it waits for its turn to ask the nodes
	Position int  // in the queue, at the end the last known; 1 is the first, 0: not known

	Waited time.Duration // end
	Err    error         // end: nil if the wait succeeded
}

// LeaseEventKind is what happened to a lease:
//
//   - "granted": the lock was acquired.
//   - "renewed": the lease was prolonged.
//   - "danger": a renewal was inconclusive.
//   - "wanted": Lease.Wanted was closed.
//   - "lost": the lease ended before its release.
//   - "released": Unlock, Close or Transfer ended it, or its handle was dropped.
type LeaseEventKind string

// LeaseEvent is an event of a lease. Where a field's comment begins with kinds, events of other kinds
// leave it zero.
type LeaseEvent struct {
	Kind   LeaseEventKind
	Time   time.Time
	Name   string
	Owner  string
	Token  int64
	Shared bool // as Lease.Shared

	Remaining time.Duration // granted, renewed, danger: validity left
	Elapsed   time.Duration // granted: since the call began; renewed: of the renewal
	Held      time.Duration // wanted, lost, released: since the acquisition began
	Rests     time.Duration // released: minimum hold left; 0: freed
	// Danger: a *QuorumError. Lost: a *LostError. Released: ErrReleased, ErrClosed or
	// ErrTransferred.
	Err error

	Context context.Context // granted, released: the caller's; else context.Background()
	Call    uint64          // granted, released: the call; 0: none
}

// NodeEventKind is what happened to a node:
//
//   - "up": it begins to vote.
//   - "down": it cannot be reached or used.
//   - "stalled": its answers are overdue.
//   - "refusing": it refuses what locks need.
//   - "quarantined": it may not vote for new leases yet.
//   - "joined": it is a master now.
//   - "left": it is no master now.
type NodeEventKind string

// NodeEvent is an event of a node.
type NodeEvent struct {
	Kind    NodeEventKind
	Time    time.Time
	Index   int           // as NodeStats.Index
	Node    string        // as NodeStats.Node
	Unfit   bool          // down: a person must act
	Wait    time.Duration // quarantined: time left; 0: not known
	Silence time.Duration // stalled: age of the oldest unanswered call
	Err     error         // down, refusing, quarantined: why
}

// ballotTrace is what hooks learn of a ballot. It is the ballot's Recorder, and its
// methods are called under the ballot's lock.
type ballotTrace struct {
	observer *observer
	start    BallotEvent
	votes    []BallotVote // until the verdict, but for what start says
	end      BallotEvent
}

// Recorder implements lock.Observer.
func (o *observer) Recorder(ctx context.Context, op, name, owner string, after quorum.Recorder) quorum.Recorder {
	if o.hooks == nil || !o.hooks.ballots {
		return nil
	}
	t := &ballotTrace{observer: o, start: BallotEvent{Ballot: ids.Add(1), Op: op, Name: name, Owner: owner}}
	if before, traced := after.(*ballotTrace); traced {
		t.start.Context, t.start.Call = before.start.Context, before.start.Call
	} else {
		t.start.Context, t.start.Call = origin(ctx)
	}
	return t
}

// Begun implements quorum.Recorder.
func (t *ballotTrace) Begun(b *quorum.Ballot) {
	t.start.Time = time.Now().Add(b.Start - t.observer.clock()) // of the start, from which Elapsed counts
	if hook := t.observer.hooks.BallotStart; hook != nil {
		t.observer.events.SendFrequent(func() { hook(t.start) }) // no copy: nothing changes it any more
	}
}

// Voted implements quorum.Recorder.
func (t *ballotTrace) Voted(v *quorum.Vote, a quorum.Answer) {
	if t.observer.hooks.BallotVote != nil {
		t.votes = append(t.votes, t.voteOf(v, a))
	}
}

// VotedLate implements quorum.Recorder.
func (t *ballotTrace) VotedLate(v *quorum.Vote, a quorum.Answer) {
	e := t.voteOf(v, a)
	e.Late = true
	e.belongsTo(&t.start)
	report(t.observer.events, t.observer.hooks.BallotVote, false, e)
}

func (t *ballotTrace) voteOf(v *quorum.Vote, a quorum.Answer) BallotVote {
	e := BallotVote{Vote: voteOf(v.Node.Index, v.Node.Name, &a)}
	if a.Outcome != quorum.NotSent {
		e.Latency = t.observer.clock() - v.Ballot().Start
	}
	return e
}

// belongsTo sets which ballot the vote is part of.
func (e *BallotVote) belongsTo(b *BallotEvent) {
	e.Context, e.Time, e.Call, e.Ballot = b.Context, b.Time, b.Call, b.Ballot
	e.Name, e.Owner, e.Op = b.Name, b.Owner, b.Op
}

// Ended implements quorum.Recorder.
func (t *ballotTrace) Ended(verdict quorum.Verdict, c quorum.Census) {
	if t.observer.hooks.BallotEnd == nil && t.observer.hooks.BallotVote == nil {
		return
	}
	e := t.start
	e.Elapsed, e.Outcome = t.observer.clock()-c.Start, "unknown"
	e.Granted, e.Refused = c.Votes[quorum.Confirmed], c.Votes[quorum.Refused]
	e.Silent = c.Votes[quorum.Unknown] + c.Votes[quorum.NotSent]
	switch {
	case verdict == quorum.Granted:
		e.Outcome = "granted"
	case verdict == quorum.Revoked || e.Refused > c.Nodes-c.Need:
		e.Outcome = "refused"
	case c.Votes[quorum.NotSent] == c.Nodes:
		e.Outcome = "not sent"
	}
	t.end = e
	t.observer.events.SendFrequent(t.deliver)
}

// deliver calls the hooks. Nothing changes any more.
func (t *ballotTrace) deliver() {
	if hook := t.observer.hooks.BallotVote; hook != nil {
		for _, v := range t.votes {
			v.belongsTo(&t.start)
			hook(v)
		}
	}
	if hook := t.observer.hooks.BallotEnd; hook != nil {
		hook(t.end)
	}
}
