package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Trace has hooks in the manner of httptrace.ClientTrace. Those that are set are
// called one after the other and in the order in which things happened, from one
// goroutine of the Client's that does nothing else (so from several where Clients
// share a Trace): a slow hook delays later ones, log lines and Close, but no vote
// and no lease. Where events come faster than they are taken some are dropped, those of
// calls and ballots first; a log line says so, and Stats.Dropped counts it.
//
// The Name of an event is the lock's, as Lease.Name has it: all names of a Multi, in the order of
// their bytes, with commas between.
//
// None is called after Close has returned, unless a Do was running then. Hooks must
// not call Close, which waits for them. Hooks that are not set cost nothing.
type Trace struct {
	// CallStart is called when Lock, TryLock, RLock, TryRLock, Acquire, TryAcquire, Extend, ExtendTo, Downgrade, Unlock,
	// Handoff, Resume or Ask begins. (Do is a Lock or Acquire, and an Unlock; RDo is an RLock and an Unlock.)
	CallStart func(CallStart)
	// CallEnd is called when it returns.
	CallEnd func(CallEnd)

	// BallotStart is called when one question is about to be sent to the nodes.
	BallotStart func(BallotStart)
	// BallotVote is called for each node's vote: together, just before BallotEnd,
	// for the votes until the verdict; and one by one for those that come later.
	BallotVote func(BallotVote)
	// BallotEnd is called when the verdict is final. A release that nobody awaits
	// may have none before its connections end.
	BallotEnd func(BallotEnd)

	// WaitStart is called when a Lock that was refused begins to wait; and, with Turn, when a call begins to wait
	// for its turn, since the client has enough attempts under way.
	WaitStart func(WaitStart)
	// WaitEnd is called when that Lock returns; and, with Turn, when the call's turn has come, or the call returns without.
	WaitEnd func(WaitEnd)

	// LeaseGranted is called when a lock was acquired, also by Resume, and by ForceUnlock, which holds the lock
	// for a moment.
	LeaseGranted func(LeaseGranted)
	// LeaseRenewed is called when a lease was prolonged, by itself or by Extend.
	LeaseRenewed func(LeaseRenewed)
	// LeaseDanger is called when a renewal of a lease was inconclusive: unless a
	// later one succeeds, the lease is lost when Remaining has passed.
	LeaseDanger func(LeaseDanger)
	// LeaseWanted is called when the holder of a lease that is WithWanted learns that somebody else
	// wants the lock: once, when Lease.Wanted is closed.
	LeaseWanted func(LeaseWanted)
	// LeaseLost is called when a lease ended before it was released; Err says why.
	LeaseLost func(LeaseLost)
	// LeaseReleased is called when Unlock, Close or Handoff ended a lease, or since
	// its handle was dropped. The client then sends the release, but not after Handoff.
	LeaseReleased func(LeaseReleased)

	// NodeUp is called when a node begins to vote: at first, and after each
	// NodeDown or NodeQuarantined.
	NodeUp func(NodeUp)
	// NodeDown is called when a node cannot be reached or used; not again with
	// every attempt to connect.
	NodeDown func(NodeDown)
	// NodeStalled is called when a ballot passes a node by whose answers are
	// overdue; not again until it has answered.
	NodeStalled func(NodeStalled)
	// NodeQuarantined is called when a node is connected but may not vote for new
	// leases yet.
	NodeQuarantined func(NodeQuarantined)
}

// CallStart is a call that begins.
type CallStart struct {
	Context context.Context // the caller's
	Time    time.Time       // when it began
	Call    uint64          // names the call in later events; no other of this process has it
	Op      string          // "lock", "trylock", "rlock", "tryrlock", "acquire", "tryacquire", "extend", "downgrade", "unlock", "ask", "handoff" or "resume"
	Name    string          // the lock's
}

// CallEnd is a call that returned.
type CallEnd struct {
	CallStart               // as it began
	Elapsed   time.Duration // how long it took
	Owner     string        // the lease's, if there is one
	Token     int64         // the lease's, if there is one
	Shared    bool          // the lease is a share
	Permits   []Permit      // those that the lease has of a Semaphore; nil of other leases
	Err       error         // what it returned
}

// BallotStart is one question that is sent to all nodes.
type BallotStart struct {
	Context context.Context // that of the call it is for; context.Background() without one
	Time    time.Time       // when it began
	Call    uint64          // the call it is for; 0: none, as for a lease that renews itself
	Ballot  uint64          // names the ballot in later events; no other of this process has it
	Op      string          // "lock", "raise" (of tokens), "extend", "unlock", "rollback", "force unlock", "handoff", "resume" or "ping"
	Name    string          // the lock's; "" for a ping
	Owner   string          // of the attempt or lease; "" for a ping
}

// BallotVote is one node's vote in a ballot. Its fields Index, Node, Outcome and
// Cause are those of Vote.
type BallotVote struct {
	BallotStart // the ballot, as it began
	Vote
	Latency time.Duration // from the start of the ballot until this was known
	// Late reports that it came after the verdict and did not count. A node that was
	// reported as Unknown at its timeout is reported again when it answers after all.
	Late bool
}

// BallotEnd is a ballot whose verdict is final.
type BallotEnd struct {
	BallotStart               // as it began
	Elapsed     time.Duration // until the verdict
	// Outcome is Granted where a quorum did what was asked, Refused where refusals
	// alone made that impossible, NotSent where no node could be asked, Unknown
	// where too few answered in time.
	Outcome Outcome
	Granted int // nodes that granted it until the verdict
	Refused int // nodes that refused it until then
	Silent  int // nodes that were not asked, or did not answer in time
}

// WaitStart is a Lock that begins to wait.
type WaitStart struct {
	Context  context.Context // the caller's
	Time     time.Time       // when it began to wait
	Call     uint64          // the call that waits
	Name     string          // the lock's
	Turn     bool            // it waits for its turn to ask the nodes, not for the lock
	Position int             // in the wait queue, as far as known, or among the client's calls that wait for their turn; 1 is the first, 0: not known
}

// WaitEnd is a Lock that waits no more.
type WaitEnd struct {
	WaitStart               // as it began, but Position is what was known last
	Waited    time.Duration // how long
	Err       error         // what Lock returns; nil: it got the lock
}

// LeaseGranted is a lock that was acquired.
type LeaseGranted struct {
	Context   context.Context // the caller's
	Time      time.Time
	Call      uint64        // the call that acquired it
	Name      string        // the lock's
	Owner     string        // the lease's
	Token     int64         // the lease's
	Shared    bool          // it is a share, as Lease.Shared has it
	Remaining time.Duration // how long the lease is valid yet
	Elapsed   time.Duration // since the call began
}

// LeaseRenewed is a lease that was prolonged.
type LeaseRenewed struct {
	Time      time.Time
	Name      string        // the lock's
	Owner     string        // the lease's
	Token     int64         // the lease's
	Shared    bool          // it is a share, as Lease.Shared has it
	Remaining time.Duration // how long the lease is valid yet
	Elapsed   time.Duration // how long the renewal took
}

// LeaseDanger is a lease whose renewals fail.
type LeaseDanger struct {
	Time      time.Time
	Name      string        // the lock's
	Owner     string        // the lease's
	Token     int64         // the lease's
	Shared    bool          // it is a share, as Lease.Shared has it
	Remaining time.Duration // how long the lease is valid yet
	Err       error         // why the renewal failed: a *QuorumError
}

// LeaseWanted is a lease whose lock somebody else wants.
type LeaseWanted struct {
	Time   time.Time
	Name   string        // the lock's
	Owner  string        // the lease's
	Token  int64         // the lease's
	Shared bool          // it is a share, as Lease.Shared has it
	Held   time.Duration // since it was asked for
}

// LeaseLost is a lease that ended before it was released.
type LeaseLost struct {
	Time   time.Time
	Name   string        // the lock's
	Owner  string        // the lease's
	Token  int64         // the lease's
	Shared bool          // it was a share, as Lease.Shared has it
	Held   time.Duration // since it was asked for
	Err    error         // why: a *LostError
}

// LeaseReleased is a lease that was given back.
type LeaseReleased struct {
	Context context.Context // the caller's of Unlock, else context.Background()
	Time    time.Time
	Call    uint64        // the Unlock or Handoff that ended it; 0: none
	Name    string        // the lock's
	Owner   string        // the lease's
	Token   int64         // the lease's
	Shared  bool          // it was a share, as Lease.Shared has it
	Held    time.Duration // since it was asked for
	Rests   time.Duration // for how long the lock rests yet, by WithMinHold; 0: it was freed
	Err     error         // ErrReleased, ErrClosed if Close ended it, or ErrHandedOff: then the lock is still taken
}

// NodeUp is a node that begins to vote.
type NodeUp struct {
	Time  time.Time
	Index int    // the node's place in the list given to New or Open
	Node  string // the node's name in errors and logs
}

// NodeDown is a node that cannot be reached or used.
type NodeDown struct {
	Time  time.Time
	Index int    // the node's place in the list given to New or Open
	Node  string // the node's name in errors and logs
	Unfit bool   // a person must act: it is a replica, a server given twice, and so on
	Err   error  // why
}

// NodeStalled is a node whose answers are overdue.
type NodeStalled struct {
	Time    time.Time
	Index   int           // the node's place in the list given to New or Open
	Node    string        // the node's name in errors and logs
	Silence time.Duration // how long the oldest call has been waiting for its answer
}

// NodeQuarantined is a node that is connected but does not vote for new leases.
type NodeQuarantined struct {
	Time  time.Time
	Index int           // the node's place in the list given to New or Open
	Node  string        // the node's name in errors and logs
	Wait  time.Duration // how long yet; 0: not known
	Err   error         // why
}

// ballotTrace is what hooks learn of a ballot. It is the ballot's Recorder, and its
// methods are called under the ballot's lock.
type ballotTrace struct {
	observer *observer
	start    BallotStart
	votes    []BallotVote // until the verdict, but for what start says
	end      BallotEnd
}

// Recorder implements lock.Observer.
func (o *observer) Recorder(ctx context.Context, op, name, owner string, after quorum.Recorder) quorum.Recorder {
	if o.hooks == nil || !o.hooks.ballots {
		return nil
	}
	t := &ballotTrace{observer: o, start: BallotStart{Ballot: ids.Add(1), Op: op, Name: name, Owner: owner}}
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
	report(t.observer.events, t.observer.hooks.BallotStart, false, t.start)
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
	e.BallotStart, e.Late = t.start, true
	report(t.observer.events, t.observer.hooks.BallotVote, false, e)
}

func (t *ballotTrace) voteOf(v *quorum.Vote, a quorum.Answer) BallotVote {
	e := BallotVote{Vote: voteOf(v.Node.Index, v.Node.Name, &a)}
	if a.Outcome != quorum.NotSent {
		e.Latency = t.observer.clock() - v.Ballot().Start
	}
	return e
}

// Ended implements quorum.Recorder.
func (t *ballotTrace) Ended(verdict quorum.Verdict, c quorum.Census) {
	if t.observer.hooks.BallotEnd == nil && t.observer.hooks.BallotVote == nil {
		return
	}
	e := BallotEnd{BallotStart: t.start, Elapsed: t.observer.clock() - c.Start, Outcome: Unknown}
	e.Granted, e.Refused = c.Votes[quorum.Confirmed], c.Votes[quorum.Refused]
	e.Silent = c.Votes[quorum.Unknown] + c.Votes[quorum.NotSent]
	switch {
	case verdict == quorum.Granted:
		e.Outcome = Granted
	case verdict == quorum.Revoked || e.Refused > c.Nodes-c.Need:
		e.Outcome = Refused
	case c.Votes[quorum.NotSent] == c.Nodes:
		e.Outcome = NotSent
	}
	t.end = e
	t.observer.events.SendFrequent(t.deliver)
}

// deliver calls the hooks. Nothing changes any more.
func (t *ballotTrace) deliver() {
	if hook := t.observer.hooks.BallotVote; hook != nil {
		for _, v := range t.votes {
			v.BallotStart = t.start
			hook(v)
		}
	}
	if hook := t.observer.hooks.BallotEnd; hook != nil {
		hook(t.end)
	}
}
