package sim

import "time"

// For how long dead waiters may keep a lock that is free from a call. A generation that does not know
// a bound excuses them for as long as countsAsAlive says.
const (
	boundsPermits = 2 // dead waiters for permits
	boundsReaders = 2 // dead writers ahead of a reader
	boundsSets    = 2 // dead waiters for several locks

	simDeadForPermits = 4 * time.Second
	simDeadForReaders = 8 * time.Second
	simDeadForSets    = 6 * time.Second
)

// gaveUpAt returns when a call no longer stood in the queues, as another one there may see it. The tickets of
// a client that died stay for as long as it may count as alive.
func gaveUpAt(w, other *simVisit, p *simPlan) time.Duration {
	died := w.caller.client.diedAt
	if died == 0 || died > w.answered {
		return w.answered
	}
	until := died + p.countsAsAlive()
	var bound time.Duration
	switch {
	case permitsOf(w) > 0 && p.knows(boundsPermits):
		bound = simDeadForPermits
	case other.reads && p.knows(boundsReaders):
		bound = simDeadForReaders
	case w.isSet() && p.knows(boundsSets):
		bound = simDeadForSets
	default:
		return until
	}
	return min(until, max(died, other.called)+bound)
}

// countsAsAlive returns for how long after its death a client may count as alive where others
// hold the lock, so that nobody challenges it: by the position of its last waiter.
func (p *simPlan) countsAsAlive() time.Duration {
	last := time.Second
	for _, n := range p.callers {
		last += time.Duration(n) * 2500 * time.Millisecond
	}
	return last
}
