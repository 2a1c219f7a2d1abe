package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
)

// Failure is a copy of a ballot's votes, made when it failed.
type Failure struct {
	Op      string
	Need    int           // the quorum
	Elapsed time.Duration // since the ballot's start
	Late    bool          // a quorum granted, but no validity was left
	Decided bool          // the verdict was final: votes that are Pending are not awaited
	Nodes   []*admission.Member
	Answers []Answer // by node
}

// FailureOf returns the votes of a ballot as they are now.
func FailureOf(b *Ballot) *Failure {
	f := &Failure{Op: b.Op, Need: b.tally.Need, Decided: b.Verdict().IsFinal(), Elapsed: b.cluster.Clock() - b.Start, Nodes: make([]*admission.Member, len(b.Votes)),
		Answers: make([]Answer, 0, len(b.Votes))}
	for i, a := range b.Answers() {
		f.Nodes[i], f.Answers = b.Votes[i].Node, append(f.Answers, *a)
	}
	return f
}

// IsHopeless reports whether waiting cannot help: so many nodes fail for a permanent reason
// that the others are no quorum.
func (f *Failure) IsHopeless() bool {
	return f.Count(func(a *Answer) bool { return node.IsPermanent(a.Cause) }) > len(f.Answers)-f.Need
}

// IsUnfit reports whether so many nodes were not asked, for a permanent reason, that the others are no quorum: no
// lock is available.
func (f *Failure) IsUnfit() bool {
	return f.Count(func(a *Answer) bool { return a.Outcome == NotSent && node.IsPermanent(a.Cause) }) > len(f.Answers)-f.Need
}

// VotesIn returns how long it is until the quarantines of so many nodes are over that they make
// a quorum with those that answered; 0 if that is not known.
func (f *Failure) VotesIn() time.Duration {
	var lefts []time.Duration
	for i := range f.Answers {
		var q *admission.QuarantineError
		switch a := &f.Answers[i]; {
		case errors.As(a.Cause, &q):
			lefts = append(lefts, q.Left)
		case a.Outcome == Confirmed || a.Outcome == Refused && !errors.Is(a.Cause, admission.ErrForgot):
			lefts = append(lefts, 0)
		}
	}
	return node.VotesIn(lefts, f.Need)
}

// IsSplit reports whether nodes that granted chose different permits of a semaphore.
func (f *Failure) IsSplit() bool {
	first := slices.IndexFunc(f.Answers, func(a Answer) bool { return a.Count == Yes })
	return first >= 0 && f.Count(func(a *Answer) bool { return a.Count == Yes && a.Slots != f.Answers[first].Slots }) > 0
}

// LackedScripts reports whether nodes had to load the scripts first: then another ballot may
// succeed.
func (f *Failure) LackedScripts() bool {
	return f.Count(LacksScript) > 0
}

// LacksScript reports whether the node had to load the script first.
func LacksScript(a *Answer) bool { return node.IsCode(a.Cause, "NOSCRIPT") }

// IsKnown reports whether it is known what the node did, or that it was not asked.
func IsKnown(a *Answer) bool { return a.Outcome != Unknown }

// Count returns the number of answers that satisfy is.
func (f *Failure) Count(is func(*Answer) bool) (n int) {
	for i := range f.Answers {
		if is(&f.Answers[i]) {
			n++
		}
	}
	return n
}
