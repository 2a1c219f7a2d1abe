package redlock

import "time"

// A node drops the tickets of a client that counts as dead there, and a node that restarts
// loses its line. The foremost waiter of a live client notices the loss, and then the
// client's other waiters ask again: else later waiters would pass them until their own
// looks, which may be minutes apart.

const (
	// rejoinStep is the time between two waiters of a client that rejoin, so that a
	// thousand of them do not ask at one instant.
	rejoinStep = 2 * time.Millisecond

	// rejoinPause is the least time between the end of one rejoining and the next. With
	// it, a thousand waiters ask 150 times a second at most, even if a node loses its
	// line again and again, or the client misses every call.
	rejoinPause = 5 * time.Second
)

// rejoining is the time span in which the waiters of a client for one lock rejoin.
type rejoining struct{ begins, ends time.Duration }

// missed makes the client's other waiters rejoin if w is the foremost: a node that
// refused w did not have its ticket any more. The node does not have the others' tickets
// either, but only the foremost waiter causes a rejoining.
func (l *line) missed(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := w.mutex.key
	if q := l.queues[key]; q.foremost() == w {
		l.rejoin(key, q[1:])
	}
}

// freed makes the client's waiters rejoin if the nodes have lost their lines. The client
// released the lock at the instant released, and a quorum of the nodes had an empty line,
// though the foremost waiter had asked so long before that it must have stood there. No
// refusal would show this: while the lock is free, no waiter is refused.
func (l *line) freed(key string, released time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; len(q) > 0 && q.foremost().asked+nearLook < released {
		l.rejoin(key, q)
	}
}

// rejoin makes the waiters in q ask again, one after the other. Called under l.mu.
func (l *line) rejoin(key string, q queue) {
	begins := l.client.opts.clock()
	switch last, again := l.rejoins[key]; {
	case again && begins < last.begins:
		begins = last.begins // some may have asked since this was planned
	case again:
		begins = max(begins, last.ends+rejoinPause)
	}
	for rank, w := range q {
		spread := l.client.opts.random.Below(rejoinStep, "rejoining")
		w.rejoinAt(begins + time.Duration(rank)*rejoinStep + spread + 1)
	}
	l.rejoins[key] = rejoining{begins, begins + time.Duration(len(q))*rejoinStep}
}
