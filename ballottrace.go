package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// ballotTrace is what hooks are told of a ballot. It is the ballot's Recorder, and its
// methods are called under the ballot's lock.
type ballotTrace struct {
	tracer *tracer
	mutex  *Mutex
	start  BallotStart
	votes  []BallotVote // until the verdict, but for what start says
	end    BallotEnd
}

// traceBallot begins to trace a ballot. It returns nil if no hook is to know.
func (m *Mutex) traceBallot(kind *ballotKind, owner string) *ballotTrace {
	t := m.opts.tracer
	if t == nil || !t.ballots {
		return nil
	}
	op := kind.op
	switch kind {
	case raising:
		op = "raise"
	case releasing:
		op = "rollback" // unless it is a lease's
	}
	return &ballotTrace{tracer: t, mutex: m, start: BallotStart{
		Context: context.Background(), Ballot: ids.Add(1), Op: op, Name: m.name, Owner: owner,
	}}
}

// setCall names the call that the ballot is for. It comes before Queue; t may be nil.
func (t *ballotTrace) setCall(ctx context.Context) {
	if t != nil {
		t.start.Context, t.start.Call = origin(ctx)
	}
}

// follow makes the ballot a part of the same call as another one. It comes before Queue;
// t and of may be nil.
func (t *ballotTrace) follow(of *ballotTrace) {
	if t != nil && of != nil {
		t.start.Context, t.start.Call = of.start.Context, of.start.Call
	}
}

// setUnlock records that the ballot releases a lease, rather than what an attempt left. t
// may be nil.
func (t *ballotTrace) setUnlock() {
	if t != nil {
		t.start.Op = "unlock"
	}
}

// Begun implements quorum.Recorder.
func (t *ballotTrace) Begun(b *quorum.Ballot) {
	t.start.Time = time.Now().Add(b.Start - t.mutex.opts.clock()) // of the start, from which Elapsed counts
	report(t.tracer.events, t.tracer.BallotStart, false, t.start)
}

// Voted implements quorum.Recorder.
func (t *ballotTrace) Voted(v *quorum.Vote, a quorum.Answer) {
	if t.tracer.BallotVote != nil {
		t.votes = append(t.votes, t.voteOf(v, a))
	}
}

// VotedLate implements quorum.Recorder.
func (t *ballotTrace) VotedLate(v *quorum.Vote, a quorum.Answer) {
	e := t.voteOf(v, a)
	e.BallotStart, e.Late = t.start, true
	report(t.tracer.events, t.tracer.BallotVote, false, e)
}

func (t *ballotTrace) voteOf(v *quorum.Vote, a quorum.Answer) BallotVote {
	e := BallotVote{Vote: voteOf(v.Node, &a)}
	if a.Outcome != quorum.NotSent {
		e.Latency = t.mutex.opts.clock() - v.Ballot().Start
	}
	return e
}

// Ended implements quorum.Recorder.
func (t *ballotTrace) Ended(verdict quorum.Verdict, c quorum.Census) {
	if t.tracer.BallotEnd == nil && t.tracer.BallotVote == nil {
		return
	}
	e := BallotEnd{BallotStart: t.start, Elapsed: t.mutex.opts.clock() - c.Start, Outcome: Unknown}
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
	t.tracer.events.SendFrequent(t.deliver)
}

// deliver calls the hooks. Nothing changes any more.
func (t *ballotTrace) deliver() {
	if hook := t.tracer.BallotVote; hook != nil {
		for _, v := range t.votes {
			v.BallotStart = t.start
			hook(v)
		}
	}
	if hook := t.tracer.BallotEnd; hook != nil {
		hook(t.end)
	}
}
