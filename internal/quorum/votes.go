package quorum

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Votes are the votes of one ballot, by node. Their methods are called under the ballot's
// lock.
type Votes []Vote

// leader returns the first answer that names the other owner that has the key at the
// greatest number of nodes, and that number; nil and 0 if no other owner was seen. The owners of a
// semaphore's slots count as one, for a ballot that asks for so many permits: see holding.
func (v Votes) leader(permits int) (leader *Answer, nodes int) {
	for i := range v {
		a := &v[i].answer
		if a.Count != No || a.Holder == "" || leader != nil && leader.Holder == a.Holder {
			continue
		}
		if n := v.showing(a.Holder, permits); n > nodes {
			leader, nodes = a, n
		}
	}
	return leader, nodes
}

// showing returns the number of nodes at which another owner has the key.
func (v Votes) showing(holder string, permits int) (nodes int) {
	if holder == protocol.Permits {
		return v.holding(permits)
	}
	for i := range v {
		if a := &v[i].answer; a.Count == No && a.Holder == holder {
			nodes++
		}
	}
	return nodes
}

// granted returns the slots that the greatest number of nodes granted, and that number. Grants of
// any lock but a semaphore are all about the same.
func (v Votes) granted() (slots string, nodes int) {
	for i := range v {
		a := &v[i].answer
		if a.Count != Yes || nodes > 0 && a.Slots == slots {
			continue
		}
		n := 0
		for j := range v {
			if o := &v[j].answer; o.Count == Yes && o.Slots == a.Slots {
				n++
			}
		}
		if n > nodes {
			slots, nodes = a.Slots, n
		}
	}
	return slots, nodes
}

// census returns the votes by outcome, for a ballot that began at start and needs a quorum
// of need.
func (v Votes) census(start time.Duration, need int) Census {
	c := Census{Start: start, Nodes: len(v), Need: need}
	for i := range v {
		if a := &v[i].answer; a.Count != Pending {
			c.Votes[a.Outcome]++
		}
	}
	return c
}
