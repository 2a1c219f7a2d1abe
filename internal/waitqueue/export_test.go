package waitqueue

import (
	"slices"

	"github.com/redlock-go/redlock/internal/admission"
)

// Executed has the waiter take a message that a node has executed its parked attempt, which
// came over the subscription of that serial.
func (w *Waiter) Executed(n *admission.Member, serial uint64, owner, token string) {
	w.executed(n, serial, owner, token)
}

// Subscriptions returns the serials of the subscriptions as they are now.
func (q *Queue) Subscriptions() []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.links.serials)
}

// Tickets returns the number of tickets that are in use.
func (q *Queue) Tickets() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters)
}
