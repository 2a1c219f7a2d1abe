package redlock

import (
	"context"
	"time"
)

// ballotTrace is what hooks are told of a ballot; nil where none is to know.
// Protected by the ballot's mutex until the verdict.
type ballotTrace struct {
	tracer *tracer
	start  BallotStart
	votes  []BallotVote // until the verdict, but for what start says
	end    BallotEnd
}

// traceBallot begins to trace a ballot, where hooks are to know.
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
	return &ballotTrace{tracer: t, start: BallotStart{
		Context: context.Background(), Ballot: ids.Add(1), Op: op, Name: m.name, Owner: owner,
	}}
}

// within names the call for which the ballot is. It comes before queue.
func (b *ballot) within(ctx context.Context) {
	if b.trace != nil {
		b.trace.start.Context, b.trace.start.Call = origin(ctx)
	}
}

// follows makes it a part of the same call as another ballot. It comes before queue.
func (b *ballot) follows(of *ballotTrace) {
	if b.trace != nil && of != nil {
		b.trace.start.Context, b.trace.start.Call = of.start.Context, of.start.Call
	}
}

// isUnlock tells that it releases a lease, rather than what an attempt left.
func (b *ballot) isUnlock() {
	if b.trace != nil {
		b.trace.start.Op = "unlock"
	}
}

// begins tells that the ballot is sent. Called under b.mu.
func (b *ballot) begins() {
	if t := b.trace; t != nil {
		t.start.Time = time.Now().Add(b.start - b.mutex.opts.clock()) // of the start, from which Elapsed counts
		report(t.tracer.herald, t.tracer.BallotStart, false, t.start)
	}
}

// heard counts a vote, and tells it. One that was only told that it is not asked is
// none. Called under b.mu.
func (b *ballot) heard(v *vote, a answer) {
	if a.outcome == NotSent && a.cause == nil {
		return
	}
	v.node.counts.votes[a.outcome].Add(1)
	if b.trace != nil && b.trace.tracer.BallotVote != nil {
		b.trace.votes = append(b.trace.votes, b.voteOf(v, a))
	}
}

// heardLate does it for a vote that came after the verdict. Called under b.mu.
func (b *ballot) heardLate(v *vote, a answer) {
	if v.answer.voice == pending {
		v.node.counts.votes[a.outcome].Add(1)
	} else {
		v.node.counts.late.Add(1) // it was counted as unknown before
	}
	if b.trace != nil {
		e := b.voteOf(v, a)
		e.BallotStart, e.Late = b.trace.start, true
		report(b.trace.tracer.herald, b.trace.tracer.BallotVote, false, e)
	}
}

func (b *ballot) voteOf(v *vote, a answer) BallotVote {
	e := BallotVote{Vote: Vote{Index: v.node.index, Node: v.node.name, Outcome: a.outcome, Holder: a.holder,
		Remaining: a.remaining, Cause: a.cause}}
	if a.outcome != NotSent {
		e.Latency = b.mutex.opts.clock() - b.start
	}
	return e
}

// ends tells the votes and the verdict, which is final. Called under b.mu.
func (b *ballot) ends() {
	t := b.trace
	if t == nil || t.tracer.BallotEnd == nil && t.tracer.BallotVote == nil {
		return
	}
	e := BallotEnd{BallotStart: t.start, Elapsed: b.mutex.opts.clock() - b.start, Outcome: Unknown}
	var votes [NotSent + 1]int
	for i := range b.votes {
		if a := &b.votes[i].answer; a.voice != pending {
			votes[a.outcome]++
		}
	}
	e.Granted, e.Refused, e.Silent = votes[Granted], votes[Refused], votes[Unknown]+votes[NotSent]
	switch {
	case b.verdict == granted:
		e.Outcome = Granted
	case b.verdict == taken || e.Refused > len(b.votes)-b.quorum:
		e.Outcome = Refused
	case votes[NotSent] == len(b.votes):
		e.Outcome = NotSent
	}
	t.end = e
	t.tracer.herald.tellOften(t.deliver)
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
