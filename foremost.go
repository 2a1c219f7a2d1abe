package redlock

import (
	"maps"
	"slices"
	"strings"
)

// The foremost waiter of a client for a lock is the one with the earliest ticket of
// those that stand in line. It looks at the lock for all of them (pace.go): they live
// and die together. When it leaves or gets the lock, the next one takes its place, and
// needs no message of a node for that.

// queue is the waiters of one client that stand in line for one lock, in the order of
// their tickets.
type queue []*waiter

// foremost returns the queue's first waiter; nil if the queue is empty.
func (q queue) foremost() *waiter {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

// find returns the waiter's index in the queue; if it is not found, the index at which
// to insert it.
func (q queue) find(w *waiter) (at int, found bool) {
	return slices.BinarySearchFunc(q, w.ticket, func(other *waiter, ticket string) int {
		return strings.Compare(other.ticket, ticket)
	})
}

// join adds a waiter that is about to stand in line, if it does not stand there yet.
func (l *line) join(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := w.mutex.key
	if at, found := l.queues[key].find(w); !found {
		l.queues[key] = slices.Insert(l.queues[key], at, w) // mostly at the end
	}
}

// part removes a waiter that has left the line or got the lock. If it was the foremost,
// the next one looks within about a second.
func (l *line) part(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := w.mutex.key
	at, found := l.queues[key].find(w)
	if !found {
		return
	}
	q := slices.Delete(l.queues[key], at, at+1)
	if len(q) == 0 {
		delete(l.queues, key)
		delete(l.rejoins, key)
		return
	}
	l.queues[key] = q
	if at == 0 {
		q[0].isNear()
	}
}

// isForemost reports whether no earlier waiter of the client stands in line for the same
// lock.
func (l *line) isForemost(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues[w.mutex.key].foremost() == w
}

// foremost returns the client's foremost waiters of all locks, in the order of the locks'
// keys. Called under l.mu.
func (l *line) foremost() []*waiter {
	all := make([]*waiter, 0, len(l.queues))
	for _, key := range slices.Sorted(maps.Keys(l.queues)) {
		all = append(all, l.queues[key].foremost())
	}
	return all
}
