package waitqueue

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// lostWakeup is after what time a reader that can enter counts its wake-up as lost.
const lostWakeup = 250 * time.Millisecond

// group is the waiters of one client that stand in the queues for one lock, in the order of
// their tickets. They live and die together: so the first of them, the foremost waiter, looks
// at the lock for all of them (turn.go). When it leaves or gets the lock, the next one
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

// part removes a waiter that has left the queues, or, if entered is set, has got the lock. If it was the foremost, the
// next one looks within about a second. If a reader has entered, the readers behind it, up to the first writer, can enter
// too. The nodes have told them so; if that was lost, their tickets are in no queue any more, and they look without it.
func (q *Queue) part(w *Waiter, entered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.lock.Keys {
		at, found := q.local[key].find(w)
		if !found {
			continue
		}
		g := slices.Delete(q.local[key], at, at+1)
		if q.local[key] = g; len(g) == 0 {
			delete(q.local, key)
			delete(q.rejoins, key)
			continue
		}
		if at > 0 {
			continue
		}
		q.lookSoon(g.foremost())
		for rank, next := range g {
			if !entered || !reads(w) || !reads(next) {
				break
			}
			next.turn.look(q.cfg.Clock() + lostWakeup + time.Duration(rank)*rejoinStep)
		}
	}
}

// lookSoon has a waiter look within about a second.
func (q *Queue) lookSoon(w *Waiter) {
	w.turn.look(q.cfg.Clock() + system.Jitter(w.lock.Terms.Random, firstLook, "looking"))
}

// lookAt has a waiter look by this instant, and a moment later the foremost of its client, which goes on to look if
// clients ahead are challenged then.
func (q *Queue) lookAt(w *Waiter, at time.Duration) {
	w.turn.look(at)
	q.mu.Lock()
	defer q.mu.Unlock()
	for rank, key := range w.lock.Keys {
		if first := q.local[key].foremost(); first != nil && first != w {
			first.turn.look(at + time.Duration(rank+1)*rejoinStep)
		}
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

const (
	// rejoinStep is the time between two waiters of a client that rejoin, so that a thousand of them do not ask at one
	// instant.
	rejoinStep = 2 * time.Millisecond

	// rejoinPause is the least time between the end of one rejoining and the next. With it, a thousand waiters ask 150
	// times a second at most, even if a node loses its queue again and again.
	rejoinPause = 5 * time.Second
)

// rejoining is the time span in which the waiters of a client for one lock rejoin.
type rejoining struct{ begins, ends time.Duration }

// rejoinOthers has the client's other waiters ask again if w is the foremost: a node that refused it did not have its
// ticket any more. It has lost its queue, or took the client for dead, and has not the others' tickets either. They do
// not look, so later waiters would pass them.
func (q *Queue) rejoinOthers(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.lock.Keys {
		if g := q.local[key]; g.foremost() == w {
			q.rejoin(key, g[1:])
		}
	}
}

// Freed has the client's waiters ask again if the nodes have lost their tickets. The client released the lock at the
// instant released, and a quorum of the nodes had an empty queue, though the foremost waiter had asked so long before
// that it must have stood there. No refusal shows this: while the lock is free, no waiter is refused.
func (q *Queue) Freed(keys []string, released time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		if g := q.local[key]; len(g) > 0 && g.foremost().asked+firstLook < released {
			q.rejoin(key, g)
		}
	}
}

// rejoin has the waiters in g ask again, one after the other. Called under q.mu.
func (q *Queue) rejoin(key string, g group) {
	begins := q.cfg.Clock()
	switch last, again := q.rejoins[key]; {
	case again && begins < last.begins:
		begins = last.begins // some may have asked since this was planned
	case again:
		begins = max(begins, last.ends+rejoinPause)
	}
	for rank, w := range g {
		spread := q.cfg.Random.Below(rejoinStep, "rejoining "+key)
		w.turn.look(begins + time.Duration(rank)*rejoinStep + spread + 1)
	}
	q.rejoins[key] = rejoining{begins, begins + time.Duration(len(g))*rejoinStep}
}
