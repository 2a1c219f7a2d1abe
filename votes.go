package redlock

// What the votes of a ballot tell.

// sent is the set of nodes that may hold the attempt.
func (b *ballot) sent() nodeSet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sentTo
}

// foundNothing tells that every node that confirmed a release had nothing of
// the attempt.
func (b *ballot) foundNothing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally[absent] >= b.quorum
}

// handedOver tells that a quorum keeps the key for somebody who waits.
func (b *ballot) handedOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for i := range b.votes {
		if b.votes[i].answer.handed {
			n++
		}
	}
	return n >= b.quorum
}

// strongest is the greatest number of nodes at which one other owner was seen.
// Called under b.mu.
func (b *ballot) strongest() int {
	_, n := b.leader()
	return n
}

// leader is the owner, not this ballot's, that was seen at most nodes. Called
// under b.mu.
func (b *ballot) leader() (leader *answer, nodes int) {
	for i := range b.votes {
		a := &b.votes[i].answer
		if a.voice != others || a.holder == "" {
			continue
		}
		n := 0
		for j := range b.votes {
			if o := &b.votes[j].answer; o.voice == others && o.holder == a.holder {
				n++
			}
		}
		if n > nodes {
			leader, nodes = a, n
		}
	}
	return leader, nodes
}

// report is every node's vote, for errors.
func (b *ballot) report() []Vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Vote, len(b.votes))
	for i := range b.votes {
		v := &b.votes[i]
		all[i] = Vote{
			Index:     i,
			Node:      v.node.name,
			Outcome:   v.answer.outcome,
			Holder:    v.answer.holder,
			Remaining: v.answer.remaining,
			Cause:     v.answer.cause,
		}
	}
	return all
}

// quorumError is the failed ballot as an error.
func (b *ballot) quorumError() *QuorumError {
	return &QuorumError{
		Op:      b.kind.op,
		Name:    b.mutex.name,
		Need:    b.quorum,
		Elapsed: b.mutex.opts.clock() - b.start,
		Votes:   b.report(),
	}
}

// unsettled is the set of nodes that may hold the attempt: it was granted there,
// or no answer tells. An error does not tell: a script can fail when it has set
// the key. Where somebody else was found, or it was not executed, it is not.
func (b *ballot) unsettled() nodeSet {
	b.mu.Lock()
	defer b.mu.Unlock()
	var set nodeSet
	for i := range b.votes {
		a := &b.votes[i].answer
		if b.sentTo.has(i) && a.voice != others && a.outcome != NotSent {
			set.add(i)
		}
	}
	return set
}

// jumped tells that a node granted the attempt though others wait there.
func (b *ballot) jumped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.votes {
		if b.votes[i].answer.holder == reservation {
			return true
		}
	}
	return false
}
