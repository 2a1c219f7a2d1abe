package lease

import "github.com/redlock-go/redlock/internal/quorum"

// Tick does what is due for the lease, as the Renewer does.
func (l *Lease) Tick() *quorum.Ballot { return l.tick() }

// Drop does what follows when the garbage collector finds that the handle was dropped.
func (h *Handle) Drop() { drop(*h) }

// AtEndLen returns the number of functions that are called when the lease's first handle ends.
func (l *Lease) AtEndLen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ending.first.atEnd)
}
