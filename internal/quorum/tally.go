package quorum

// Count is what a node's answer counts as.
type Count int

const (
	Pending   Count = iota // no answer yet
	Yes                    // granted, renewed, released, or simply answered
	Recreated              // a renewal found the key missing and created it anew
	No                     // another owner has the key, or the key is missing and the node may have forgotten it
	NotFound               // a release found nothing of the attempt
	NoAnswer               // no answer, an error, or not sent
	counts
)

// Tally is the number of nodes for each Count in one ballot.
type Tally [counts]int

// answered returns the number of nodes that answered.
func (t *Tally) answered() int { return t[Yes] + t[Recreated] + t[No] + t[NotFound] }

// Verdict is the result of the votes so far. The order matters: from Failed on it is final.
type Verdict int

const (
	Open          Verdict = iota
	HeldElsewhere         // another owner has a quorum; a waiter still awaits the other votes
	Impossible            // a quorum has become impossible; whether another owner has one is open
	Failed                // no quorum
	Revoked               // a renewal only: a quorum of the nodes had lost the lease
	Granted               // a quorum did what was asked
)

// IsFinal reports whether further votes cannot change the verdict.
func (v Verdict) IsFinal() bool { return v >= Failed }

// Rule decides a ballot, as soon as its verdict is certain. need is the quorum. A Rule is
// called under the ballot's lock.
type Rule func(need int, t *Tally, b *Ballot) Verdict

// Acquire is the Rule of attempts.
func Acquire(need int, t *Tally, b *Ballot) Verdict {
	_, strongest := b.Votes.leader(int(b.Permits))
	_, grants := b.Votes.granted()
	return decideAcquire(t, need, grants, strongest, false)
}

// AcquireWaiting is the Rule of waiters' attempts.
func AcquireWaiting(need int, t *Tally, b *Ballot) Verdict {
	_, strongest := b.Votes.leader(int(b.Permits))
	_, grants := b.Votes.granted()
	return decideAcquire(t, need, grants, strongest, true)
}

// decideAcquire grants at the grant that makes a quorum of need nodes; grants is the greatest
// number of nodes that granted the same. The quorum becomes
// Impossible as soon as the votes still out cannot make one. The failure is final when no
// vote still out can change whether one other owner may have a quorum; strongest is the
// greatest number of nodes at which the same other owner was seen. A waiter waits for the
// other votes if that owner has a quorum, or if no node has granted yet: otherwise it would
// roll back at each node that has not voted, and that would remove its parked attempts too.
func decideAcquire(t *Tally, need, grants, strongest int, waiter bool) Verdict {
	if grants >= need {
		return Granted
	}
	if grants+t[Pending] >= need {
		return Open
	}
	surelyHeld := strongest >= need
	if waiter && surelyHeld && t[Pending] > 0 {
		return HeldElsewhere
	}
	surelyFree := strongest+t[NoAnswer]+t[Pending] < need
	tooFewAnswers := t[Yes]+t[No]+t[Pending] < need
	if t[Pending] == 0 || surelyHeld || surelyFree || tooFewAnswers {
		return Failed
	}
	if waiter && t[Yes] == 0 {
		return Open
	}
	return Impossible
}

// Renew is the Rule of renewals. It grants if Yes and Recreated nodes together are a
// quorum, unless a quorum had lost the lease: then another owner may have held the lock
// meanwhile, and a key that was created anew proves nothing. So it grants only when the
// votes still out cannot show such a loss any more.
func Renew(need int, t *Tally, _ *Ballot) Verdict {
	gone := t[Recreated] + t[No]
	switch {
	case gone >= need:
		return Revoked
	case t[Yes]+t[Recreated] >= need && gone+t[Pending] < need:
		return Granted
	case t[Yes]+t[Recreated]+t[Pending] < need && gone+t[Pending] < need:
		return Failed
	case t[Pending] == 0:
		return Failed
	}
	return Open
}

// Survey is the Rule of pings: Confirm, which does not fail before each node has answered. A call that is made to
// learn why there is no quorum must not leave a healthy node out.
func Survey(need int, t *Tally, b *Ballot) Verdict {
	if v := Confirm(need, t, b); v != Failed || t[Pending] == 0 {
		return v
	}
	return Open
}

// Confirm is the Rule of releases. It grants if a quorum answered: any answer of
// a node confirms.
func Confirm(need int, t *Tally, _ *Ballot) Verdict {
	confirmed := t[Yes] + t[NotFound]
	switch {
	case confirmed >= need:
		return Granted
	case confirmed+t[Pending] < need:
		return Failed
	}
	return Open
}
