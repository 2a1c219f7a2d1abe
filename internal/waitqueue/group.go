package waitqueue

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// lostWakeup is after what time a reader that can enter counts its wake-up as lost.
const lostWakeup = nearLook / 4

// group is the waiters of one client that stand in the queues for one lock, in the order of
// their tickets. They live and die together: so the first of them, the foremost waiter, looks
// at the lock for all of them (polling.go). When it leaves or gets the lock, the next one
// takes its place, and needs no message of a node for that.
type group []*Waiter

// foremost returns the group's first waiter; nil if the group is empty.
func (g group) foremost() *Waiter {
	if len(g) == 0 {
		return nil
	}
	return g[0]
}

// find returns the waiter's index in the group; if it is not found, the index at which to
// insert it.
func (g group) find(w *Waiter) (at int, found bool) {
	return slices.BinarySearchFunc(g, w.ticket, func(other *Waiter, ticket string) int {
		return strings.Compare(other.ticket, ticket)
	})
}

// join adds a waiter that is about to join the queues, if it does not stand there yet.
func (q *Queue) join(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.lock.Keys {
		if at, found := q.local[key].find(w); !found {
			q.local[key] = slices.Insert(q.local[key], at, w) // mostly at the end
		}
	}
}

// part removes a waiter that has left the queues, or, if entered is set, has got the lock. If it
// was the foremost, the next one looks within about a second. If the foremost has entered as a
// reader, those behind it, up to the first writer, can enter too. The nodes have told them
// so; if that was lost, their tickets are in no queue any more, and they look without it.
func (q *Queue) part(w *Waiter, entered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.lock.Keys {
		q.partFrom(key, w, entered)
	}
}

// partFrom removes the waiter from the group of one lock. Called under q.mu.
func (q *Queue) partFrom(key string, w *Waiter, entered bool) {
	at, found := q.local[key].find(w)
	if !found {
		return
	}
	g := slices.Delete(q.local[key], at, at+1)
	if len(g) == 0 {
		delete(q.local, key)
		delete(q.rejoins, key)
		return
	}
	q.local[key] = g
	if at > 0 {
		return
	}
	g[0].bell.lookSoon()
	for rank, next := range g {
		if !entered || !reads(w) || !reads(next) {
			return
		}
		next.bell.rejoinBy(q.cfg.Clock() + lostWakeup + time.Duration(rank)*rejoinStep)
	}
}

// isForemost reports whether no earlier waiter of the client stands in the queues for the same
// lock; of a waiter for several locks, for one of them: there it looks for the others.
func (w *Waiter) isForemost() bool {
	q := w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(w.lock.Keys, func(key string) bool { return q.local[key].foremost() == w })
}

// foremost returns the client's foremost waiters of all locks, in the order of the locks'
// keys. Called under q.mu.
func (q *Queue) foremost() []*Waiter {
	all := make([]*Waiter, 0, len(q.local))
	for _, key := range slices.Sorted(maps.Keys(q.local)) {
		all = append(all, q.local[key].foremost())
	}
	return all
}
