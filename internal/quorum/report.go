package quorum

import "iter"

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
		if is(a) {
			n++
		}
	}
	return n >= b.cluster.Need
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
	slots, _ := b.Votes.granted()
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
