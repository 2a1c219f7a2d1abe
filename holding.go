package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// holding is what the client knows of a lease. The keeper looks at it when it
// is due, renews it, and ends it; the Lease is the user's handle of it, so that
// a handle that was dropped can be noticed.
type holding struct {
	mutex  *Mutex
	owner  string
	token  int64
	since  time.Duration // when it was asked for
	waiter *waiter       // by which it was waited for; nil if it did not queue
	limit  time.Duration // the validity never goes beyond (WithMaxHold)

	mu       sync.Mutex    // protects what follows; ballots are queued, and the keeper's lock taken, under it
	until    time.Duration // end of validity, on the client's clock
	keysEnd  time.Duration // its keys may stand so long by the last renewal, whatever came of that
	renewAt  time.Duration // when to renew next
	renewal  *ballot       // the renewal under way, if it is the keeper's
	failing  bool          // the last renewal was inconclusive
	untold   bool          // it was granted by a bid: its first renewal tells who is near in line
	mayHold  nodeSet       // nodes where its key may stand, now or later
	restored nodeSet       // nodes where it was missing, since the last renewal that succeeded
	err      error         // why it ended; nil while held
	working  bool          // a Do is running: Close leaves the release to it
	done     chan struct{} // made by the first Done
	gone     chan struct{} // made by shut, closed when its Do has released it
	contexts contextSet
	handle   *Lease // until the first renewal; then only the user has it

	// The keeper's, protected by its lock.
	due   time.Duration // when to look at it
	place int           // in the keeper's heap; -1: not there
}

// newLease makes the lease that a ballot granted.
func newLease(m *Mutex, b *ballot, token int64, w *waiter) *Lease {
	h := &holding{mutex: m, owner: b.owner, token: token, since: b.start, limit: forever, mayHold: b.sent(), place: -1}
	if w.queues() {
		h.waiter = w
		h.mayHold |= w.seats
	}
	if m.opts.maxHold > 0 {
		h.limit = b.start + min(m.opts.maxHold, forever-b.start) // no overflow
	}
	h.until = min(m.opts.validFor(b.start, b.ttl), h.limit)
	if h.planRenewal(b.start); b.ttl < m.opts.ttl {
		h.renewAt, h.untold = h.now(), true
	}
	h.due = h.next()
	h.handle = &Lease{h}
	return h.handle
}

func (h *holding) now() time.Duration { return h.mutex.opts.clock() }

// ended tells why the lease may not be used any more; nil if it may. Called
// under h.mu.
func (h *holding) ended() error {
	if h.err == nil && h.now() >= h.until {
		return ErrLost
	}
	return h.err
}

func (h *holding) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended()
}

func (h *holding) remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return 0
	}
	return max(0, h.until-h.now())
}

// validity is the end of validity, whether it has passed or not.
func (h *holding) validity() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// next is when the keeper must look again. Called under h.mu.
func (h *holding) next() time.Duration {
	if h.renewal != nil {
		return min(h.until, h.renewal.start+h.mutex.opts.voteTimeout())
	}
	return min(h.until, h.renewAt)
}

// tick does what is due: ends the lease, begins a renewal, or gives one up that
// had no verdict in time. A ballot that it returns must be flushed.
func (h *holding) tick() *ballot {
	h.mu.Lock()
	now := h.now()
	switch late := h.renewal; {
	case h.err != nil:
		h.mu.Unlock()
	case now >= h.until:
		h.mu.Unlock()
		h.lapse()
	case late != nil && now >= late.start+h.mutex.opts.voteTimeout():
		h.mu.Unlock()
		late.end(errNoVerdict)
		h.conclude(late, late.current())
	case late == nil && now >= h.renewAt:
		b := h.renew()
		h.mu.Unlock()
		if v := b.current(); v >= failed {
			h.conclude(b, v) // no node could be asked
		}
		return b
	default:
		h.mutex.client.keeper.move(h, h.next())
		h.mu.Unlock()
	}
	return nil
}

// lapse ends a lease whose validity is over.
func (h *holding) lapse() {
	if h.validity() > h.now() {
		return
	}
	h.end(ErrLost)
}

// abandon ends a lease whose handle was dropped without Unlock.
func (h *holding) abandon() {
	if b, was := h.end(ErrReleased); b != nil && was == nil {
		h.mutex.opts.herald.log(slog.LevelError, "a lease was dropped without Unlock; it is released now",
			"name", h.mutex.name, "owner", h.owner)
	}
}

// work marks the lease as one that a Do works under. It fails if the lease has
// ended before.
func (h *holding) work() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.working = true
	return h.ended()
}

// shut ends the lease because the client closes. It returns true for one that a
// Do works under: its key stays, so that nobody else comes in before fn returns.
func (h *holding) shut() (working bool) {
	h.mu.Lock()
	if h.err != nil || !h.working {
		h.mu.Unlock()
		h.end(ErrClosed)
		return false
	}
	contexts := h.mark(ErrClosed)
	h.gone = make(chan struct{})
	h.mu.Unlock()
	h.cancel(contexts, ErrClosed)
	return true
}

// awaitEnd waits until a lease that was shut is released by its Do, or over with its
// keys.
func (h *holding) awaitEnd() {
	h.mu.Lock()
	end := max(h.until, h.keysEnd)
	h.mu.Unlock()
	timer := time.NewTimer(end - h.now())
	defer timer.Stop()
	select {
	case <-h.gone:
	case <-timer.C:
	}
}

// end ends the lease for the reason why, and sends the release. was is the
// reason for which it had ended before; b is nil where nothing was sent because
// that had been done before.
func (h *holding) end(why error) (b *ballot, was error) { return h.endBy(context.Background(), why) }

// endBy is end for a call of the user's.
func (h *holding) endBy(ctx context.Context, why error) (b *ballot, was error) {
	m := h.mutex
	h.mu.Lock()
	left := h.err == ErrClosed && h.working && why == ErrReleased // Close left it to its Do
	if h.err != nil && !left {
		defer h.mu.Unlock()
		return nil, h.err
	}
	now := h.now()
	if now >= h.until {
		was, why = ErrLost, ErrLost
	}
	var contexts contextSet
	if left {
		h.err = why
	} else {
		contexts = h.mark(why)
	}
	ticket := h.waiter.retires()
	b = m.newBallot(releasing, h.owner, leaving(releaseScript.bySHA(m.keyArg, h.owner), ticket), now)
	b.ticket = ticket
	h.ends(ctx, why)
	b.within(ctx)
	b.isUnlock()
	crowded := b.queue(h.mayHold, true)
	if left {
		close(h.gone) // Close may go on: it finds the release queued
	}
	h.mu.Unlock()

	if why == ErrLost {
		m.opts.herald.log(slog.LevelError, "a lease is lost", "name", m.name, "owner", h.owner)
	}
	h.cancel(contexts, why)
	m.client.keeper.remove(h)
	b.flush(crowded)
	return b, was
}

// refuse is the error of a lease that has ended.
func (h *holding) refuse(op string, why error) error {
	return fmt.Errorf("redlock: %s %q: %w", op, h.mutex.name, why)
}
