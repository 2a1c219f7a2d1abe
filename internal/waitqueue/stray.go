package waitqueue

import (
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A stray ticket stands in a node's queues, is of this client, and none of its callers waits with it: the node was
// restarted with old data. Its client lives, and so the node keeps it. The ticket of a mutex or a reader leaves the
// queue when the lock is reserved for it; those of sets and of permits stay, and keep others out until the client
// takes them away.

// staysReserved reports whether a ticket stays in the queue when its lock is reserved for it.
func staysReserved(ticket string) bool {
	return protocol.PermitsOf(ticket) > 0 || strings.HasSuffix(ticket, protocol.SetSuffix)
}

// takeOut takes a stray ticket out of a node's queues for the locks that the waiter wants.
func (w *Waiter) takeOut(node int, ticket string) {
	w.queue.cfg.Cluster.Nodes[node].Undo(w.lock.Undoer.NewUndo(protocol.Nobody+ticket, ticket))
}

// TakeOutStrays takes out the stray tickets of sets for which nodes keep the lock, as the answers of a refused
// attempt show. A node does not wake the client that asks.
func (w *Waiter) TakeOutStrays(b *quorum.Ballot) {
	for node, a := range b.Answers() {
		ticket, kept := strings.CutPrefix(a.Holder, protocol.Reservation)
		if kept && strings.HasSuffix(ticket, protocol.SetSuffix) && w.queue.isStray(ticket) {
			w.takeOut(node, ticket)
		}
	}
}

// isStray reports whether a ticket is of this client, and none of its callers waits with it.
func (q *Queue) isStray(ticket string) bool {
	if _, rest, _ := strings.Cut(ticket, "-"); !strings.HasPrefix(rest, q.cfg.ID+"-") {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiters[ticket] == nil
}
