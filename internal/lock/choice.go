package lock

import (
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// choice watches the votes of an attempt to get permits. When the attempt is granted, nodes that
// chose other slots than the quorum must give them back: they would keep others from them for as
// long as the keys last. And the waiter must leave the queues of the nodes that refused it:
// it would stand there as the first, and keep others from slots that are free.
type choice struct {
	permits *Permits
	owner   string
	ticket  string         // the waiter's; "" if the caller does not queue
	next    quorum.Watcher // nil: none

	mu      sync.Mutex // protects what follows
	settled bool       // the attempt was granted
	slots   string     // those that the quorum chose
	seen    []seenVote // before it was granted
}

// seenVote is a node's answer.
type seenVote struct {
	node   *admission.Member
	answer quorum.Answer
}

// Answered implements quorum.Watcher.
func (c *choice) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	if c.next != nil {
		a = c.next.Answered(v, a)
	}
	c.compareLimits(a.Holder)
	c.mu.Lock()
	settled := c.settled
	if !settled {
		c.seen = append(c.seen, seenVote{v.Node, a})
	}
	c.mu.Unlock()
	if settled {
		c.tidy(v.Node, &a)
	}
	return a
}

// compareLimits reports that the waiter for which free slots are kept gives another number of
// permits. holder is what a refusal shows.
func (c *choice) compareLimits(holder string) {
	ticket, kept := strings.CutPrefix(holder, protocol.Reservation)
	if !kept {
		return
	}
	if theirs, p := protocol.LimitOf(ticket), c.permits; theirs != 0 && theirs != p.size {
		p.engine.Observer.LimitsDiffer(p.Name, p.size, theirs)
	}
}

// Decided implements quorum.Watcher.
func (c *choice) Decided(v quorum.Verdict, late bool) {
	if c.next != nil {
		c.next.Decided(v, late)
	}
}

// settle returns the slots that a quorum chose, and tidies up at the nodes that have answered
// otherwise. The others follow when they answer. The attempt was granted, so its quorum has been
// seen, and no other choice has as many nodes.
func (c *choice) settle() (slots string) {
	c.mu.Lock()
	seen, nodes := c.seen, make(map[string]int)
	for i := range seen {
		if a := &seen[i].answer; a.Count == quorum.Yes {
			nodes[a.Slots]++
			if nodes[a.Slots] > nodes[slots] {
				slots = a.Slots
			}
		}
	}
	c.settled, c.slots, c.seen = true, slots, nil
	c.mu.Unlock()
	for i := range seen {
		c.tidy(seen[i].node, &seen[i].answer)
	}
	return slots
}

// tidy undoes the attempt at a node that has not chosen the lease's slots, and takes the ticket out of
// its queue, which an attempt before may have put there. A renewal does not count there until the
// node has confirmed that.
func (c *choice) tidy(n *admission.Member, a *quorum.Answer) {
	switch {
	case a.Count == quorum.Yes && a.Slots == c.slots:
	case c.ticket == "" && (a.Count == quorum.No || a.Outcome == quorum.NotSent):
	default:
		n.Undo(c.permits.NewUndo(c.owner, c.ticket))
	}
}
