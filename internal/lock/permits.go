package lock

import (
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
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
	p.choice = &choice{permits: p, owner: a.Owner, ticket: a.ticket(), next: a.Watcher}
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
