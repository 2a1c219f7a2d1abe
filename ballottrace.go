package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

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
