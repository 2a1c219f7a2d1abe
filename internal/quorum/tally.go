package quorum

// Count is what a node's answer counts as.
type Count int8

const (
	Pending   Count = iota // no answer yet
	Yes                    // granted, renewed, released, or simply answered
	Recreated              // a renewal found the key missing and created it anew
	No                     // another owner has the key, or the key is missing and the node may have forgotten it
	NotFound               // a release found nothing of the attempt
	NoAnswer               // no answer, an error, or not sent
	Outside                // the node is none of the masters: its answer does not count
	counts
)

// Tally is what the votes of one ballot come to.
type Tally struct {
	Need   int         // a quorum
	Nodes  [counts]int // how many voted so
	Grants int         // the greatest number of nodes that granted the same
	Rival  int         // the greatest number of nodes at which the same other owner has the key
}

// answered returns the number of nodes that answered.
func (t *Tally) answered() int {
	return t.Nodes[Yes] + t.Nodes[Recreated] + t.Nodes[No] + t.Nodes[NotFound]
}

// Verdict is the result of the votes so far. The order matters: from Failed on it is final.
type Verdict int8

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

// Rule decides a ballot, as soon as its verdict is certain.
type Rule func(t *Tally) Verdict

// Acquire is the Rule of attempts. It grants at the grant that makes a quorum. The quorum becomes
// Impossible as soon as the votes still out cannot make one. The failure is final when no
// vote still out can change whether one other owner may have a quorum.
func Acquire(t *Tally) Verdict {
	switch {
	case t.Grants >= t.Need:
		return Granted
	case t.Grants+t.Nodes[Pending] >= t.Need:
		return Open
	case t.Nodes[Pending] == 0 || t.rivalIsSettled():
		return Failed
	}
	return Impossible
}

// rivalIsSettled reports whether no vote still out can change what is known of another owner: that one has a
// quorum, may have one, or neither is shown, as it cannot have one or too few nodes answer.
func (t *Tally) rivalIsSettled() bool {
	pending, answers := t.Nodes[Pending], t.Nodes[Yes]+t.Nodes[No]
	has := t.Rival >= t.Need
	mayHave := t.Rival+t.Nodes[NoAnswer] >= t.Need && t.Rival+pending < t.Need && answers >= t.Need
	neither := t.Rival+t.Nodes[NoAnswer]+pending < t.Need || answers+pending < t.Need
	return has || mayHave || neither
}

// AcquireWaiting is the Rule of waiters' attempts. A waiter waits for the
// other votes if another owner has a quorum, or if no node has granted yet: otherwise it would
// roll back at each node that has not voted, and that would remove its parked attempts too.
func AcquireWaiting(t *Tally) Verdict {
	v := Acquire(t)
	switch {
	case v == Granted || v == Open || t.Nodes[Pending] == 0:
		return v
	case t.Rival >= t.Need:
		return HeldElsewhere
	case v == Impossible && t.Nodes[Yes] == 0:
		return Open
	}
	return v
}

// Renew is the Rule of renewals. It grants if Yes and Recreated nodes together are a
// quorum, unless a quorum had lost the lease: then another owner may have held the lock
// meanwhile, and a key that was created anew proves nothing. So it grants only when the
// votes still out cannot show such a loss any more.
func Renew(t *Tally) Verdict {
	has, gone, pending := t.Nodes[Yes]+t.Nodes[Recreated], t.Nodes[Recreated]+t.Nodes[No], t.Nodes[Pending]
	switch {
	case gone >= t.Need:
		return Revoked
	case has >= t.Need && gone+pending < t.Need:
		return Granted
	case has+pending < t.Need && gone+pending < t.Need:
		return Failed
	case pending == 0:
		return Failed
	}
	return Open
}

// Survey is the Rule of pings: Confirm, which does not fail before each node has answered. A call that is made to
// learn why there is no quorum must not leave a healthy node out.
func Survey(t *Tally) Verdict {
	if v := Confirm(t); v != Failed || t.Nodes[Pending] == 0 {
		return v
	}
	return Open
}

// Confirm is the Rule of releases. It grants if a quorum answered: any answer of
// a node confirms.
func Confirm(t *Tally) Verdict {
	confirmed := t.Nodes[Yes] + t.Nodes[NotFound]
	switch {
	case confirmed >= t.Need:
		return Granted
	case confirmed+t.Nodes[Pending] < t.Need:
		return Failed
	}
	return Open
}
