package waitqueue

import "time"

// A node drops the tickets of a client that counts as dead there, and a node that restarts
// loses its queue. The foremost waiter of a live client notices the loss, and then the
// client's other waiters ask again: else later waiters would pass them until their own
// looks, which may be minutes apart.

const (
	// rejoinStep is the time between two waiters of a client that rejoin, so that a
	// thousand of them do not ask at one instant.
	rejoinStep = 2 * time.Millisecond

	// rejoinPause is the least time between the end of one rejoining and the next. With
	// it, a thousand waiters ask 150 times a second at most, even if a node loses its
	// queue again and again, or the client misses every wake-up.
	rejoinPause = 5 * time.Second
)

// rejoining is the time span in which the waiters of a client for one lock rejoin.
type rejoining struct{ begins, ends time.Duration }

// rejoinOthers makes the client's other waiters rejoin if w is the foremost: a node that
// refused w did not have its ticket any more. The node does not have the others' tickets
// either, but only the foremost waiter causes a rejoining.
func (q *Queue) rejoinOthers(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range w.lock.Keys {
		if g := q.local[key]; g.foremost() == w {
			q.rejoin(key, g[1:])
		}
	}
}

// Freed makes the client's waiters rejoin if the nodes have lost their queues. The client
// released the lock at the instant released, and a quorum of the nodes had an empty queue,
// though the foremost waiter had asked so long before that it must have stood there. No
// refusal would show this: while the lock is free, no waiter is refused.
func (q *Queue) Freed(keys []string, released time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		if g := q.local[key]; len(g) > 0 && g.foremost().asked+nearLook < released {
			q.rejoin(key, g)
		}
	}
}

// rejoin makes the waiters in g ask again, one after the other. Called under q.mu.
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
		w.bell.rejoinBy(begins + time.Duration(rank)*rejoinStep + spread + 1)
	}
	q.rejoins[key] = rejoining{begins, begins + time.Duration(len(g))*rejoinStep}
}
