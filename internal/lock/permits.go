package lock

import (
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// MaxPermits is how many permits a semaphore has at most.
const MaxPermits = protocol.MaxPermits

// Permits is some of the permits of a semaphore, as one caller asks for them with
// Client.Semaphore. A semaphore of K permits is K slots. Each slot is an Exclusive lock, whose key
// is the semaphore's with # and the slot's number. A node that grants an attempt chooses free slots
// for it; a lease is granted when a quorum has chosen the same. From then on it is like a lease of
// Several locks, whose keys are those slots'.
type Permits struct {
	Lock
	size, n int       // slots of the semaphore; those that are asked for
	terms   Terms     // as given, but that refused attempts are not parked
	queue   [1]string // the key of the wait queue
	wire    protocol.SemaphoreKeys
	choice  *choice // of the last attempt
	slots   []int   // of the last attempt that was granted, which became the lease or was rolled back
}

// Init makes a request for n of the size permits of a semaphore.
func (p *Permits) Init(e *Engine, t *Terms, prefix, name string, size, n int) {
	e.need(protocol.ForPermits|protocol.ForSeveral, t)
	p.terms = *t
	p.terms.Wait.Parking = false // releases that cross would execute the attempt at different slots
	p.wire, p.queue[0] = protocol.NewSemaphoreKeys(prefix, name, size, n)
	p.Lock = Lock{Name: name, keys: p.queue[:], engine: e, terms: &p.terms, kind: &p.wire, permits: p, Reader: permitting,
		script: protocol.GiveBack, suffix: protocol.PermitsSuffix(size, n)}
	p.size, p.n = size, n
}

// Asked returns how many permits are asked for, and how many the semaphore has.
func (p *Permits) Asked() (n, all int) { return p.n, p.size }

// Slots returns the slots that the lease has.
func (p *Permits) Slots() []int { return p.slots }

// prepare begins the choice of an attempt's slots. All nodes try the slots in one order, so that they choose the same.
// The order is new for each attempt: nodes that chose differently may choose the same next time.
func (p *Permits) prepare(a *Attempt, call *protocol.AttemptCall) {
	call.Asks = a.Waits && a.Waiter == nil
	call.Seed = int64(p.terms.Random.Below(protocol.Orders, "order of slots"))
	p.wire.Forget()         // of an attempt before, which was rolled back
	a.Permits = uint16(p.n) //nolint:gosec // at most MaxPermits
	p.choice = &choice{permits: p, owner: a.Owner, next: a.Watcher}
	if a.Waiter != nil {
		p.choice.ticket = a.Waiter.Ticket()
	}
	a.Watcher = p.choice
}

// granted gives the lease the slots that a quorum chose.
func (p *Permits) granted(a *Attempt) {
	p.slots = p.wire.Choose(p.choice.settle())
	if a.Waiter == nil {
		return
	}
	unasked := a.Waiter.Nodes() &^ a.Sent() // this time, and may have the ticket in their queues
	p.engine.undoAt(unasked, func() *node.Undo { return p.NewUndo(a.Owner, a.Waiter.Ticket()) })
}

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
