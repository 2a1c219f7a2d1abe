package waitqueue

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// firstQuorumWait is how long a waiter that was woken by one node awaits the wake-ups of
	// the others before it tries; it doubles with every try in vain. The wake-up may be a
	// challenge: a client that answers after the reservation's ttl counts as dead, so a
	// waiter never waits that long.
	firstQuorumWait = 50 * time.Millisecond
	maxQuorumWait   = protocol.ReservationTTL / 4

	// retriesBeforeBackoff is how many wake-ups of a quorum in a row a waiter may follow in
	// vain before it hesitates, first for retryBase, then for twice as long each time.
	retriesBeforeBackoff = 3
	retryBase            = 2 * time.Millisecond
)

// AwaitTurn returns when it is time for the next attempt, after one that was refused: when a
// quorum of the nodes is ready for the waiter, a while after the first of them is, or when it
// is to look again. Errors: life.ErrClosed, or ctx's cause.
func (w *Waiter) AwaitTurn(ctx context.Context, s Standing) error {
	clock := w.queue.cfg.Clock
	w.last.took = s.Took
	if s.Joined && w.poll.looked && !w.last.rejoined {
		w.queue.rejoinOthers(w)
	}
	t := turn{waiter: w, due: clock() + max(w.poll.after(s, w.isForemost()), w.backoff())}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := clock()
		t.hasten(now)
		if now >= t.due {
			return nil
		}
		timer.Reset(t.due - now)
		select {
		case <-timer.C:
		case <-w.bell.wake:
		case <-ctx.Done():
			return life.EndOf(ctx)
		case <-w.queue.cfg.Life.Closing():
			return life.ErrClosed
		}
	}
}

// IsAwaited reports whether nodes await the waiter's next attempt. Either a node has called it since the last one, or
// it is its client's foremost waiter: by its attempts the nodes know that the client lives.
func (w *Waiter) IsAwaited() bool {
	s := w.bell.read()
	return s.woken || s.now || s.nodes.Len() >= w.queue.cfg.Cluster.Need || w.isForemost()
}

// Calls returns a channel that receives a value after IsAwaited has become true. Only the waiter's own goroutine may
// read it.
func (w *Waiter) Calls() <-chan struct{} { return w.bell.wake }

// turn is when a waiter tries again. Each kind of signal brings it forward once.
type turn struct {
	waiter            *Waiter
	due               time.Duration
	woken, soon, full bool // signals that have been followed
}

// hasten brings the turn forward by the signals that the waiter has got until now.
func (t *turn) hasten(now time.Duration) {
	w := t.waiter
	s := w.bell.read()
	if s.woken && !t.woken {
		t.woken = true
		t.due = min(t.due, now+min(firstQuorumWait<<min(w.last.misses, 10), maxQuorumWait))
	}
	if s.now {
		t.due = now
	}
	if s.nodes.Len() >= w.queue.cfg.Cluster.Need && !t.full {
		t.full = true
		t.due = min(t.due, now+w.backoff())
	}
	if s.rejoinBy > 0 {
		t.due = min(t.due, s.rejoinBy)
	}
	if s.soon && !t.soon {
		t.soon = true
		t.due = min(t.due, now+w.poll.nearPace())
	}
}

// backoff returns how long the waiter waits though a quorum is ready. Mostly that is not at
// all; but where several tries in a row were refused all the same, something is amiss that
// trying does not mend.
func (w *Waiter) backoff() time.Duration {
	if w.last.vain < retriesBeforeBackoff {
		return 0
	}
	return retryBase << min(w.last.vain-retriesBeforeBackoff, 6)
}
