package lock

import (
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// trim asks nodes to cut the keys that refused an attempt and last longer than any lease relies on them: the server's
// clock was set back. It does not wait for the answers. docs/safety.md (Clocks that are set back) has the argument.
func (l *Lock) trim(b *quorum.Ballot) {
	type place struct {
		node  *admission.Member
		right *admission.VoteRight
	}
	var at []place
	for i, a := range b.Answers() {
		v := &b.Votes[i]
		if a.Count != quorum.No || v.Right == nil {
			continue
		}
		most := v.Right.Longest
		if protocol.IsReservation(a.Holder) && len(l.keys) == 1 { // of several, the remaining time may be another key's
			most = protocol.LongestReservation
		}
		if a.Remaining > most {
			at = append(at, place{v.Node, v.Right})
		}
	}
	for _, p := range at {
		p.node.Ask(p.right.On(), "EVAL", p.right.Trim(l.heldKeys()).Eval()...)
	}
}
