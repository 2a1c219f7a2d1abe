package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
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

	mu       sync.Mutex     // protects what follows; ballots are queued, and the keeper's lock taken, under it
	until    time.Duration  // end of validity, on the client's clock
	keysEnd  time.Duration  // its keys may stand so long by the last renewal, whatever came of that
	renewAt  time.Duration  // when to renew next
	renewal  *ballot        // the renewal under way, if it is the keeper's
	failure  *QuorumError   // of the last renewal; nil if that succeeded
	expired  *LostError     // made by expiry
	mayHold  quorum.NodeSet // nodes where its key may stand, now or later
	restored quorum.NodeSet // nodes where it was missing, since the last renewal that succeeded
	err      error          // why it ended; nil while held
	working  bool           // a Do is running: Close leaves the release to it
	done     chan struct{}  // made by the first Done
	gone     chan struct{}  // made by shut where a Do is running, closed when that has released it
	contexts contextSet

	unreleased bool // shut has ended it, and its release is still to be sent

	handle *Lease // until the first renewal; then only the user has it

	// The keeper's, protected by its lock.
	due   time.Duration // when to look at it
	place int           // in the keeper's heap; -1: not there
}

// newLease makes the lease that a ballot granted.
func newLease(m *Mutex, b *ballot, token int64, w *waiter) *Lease {
	h := &holding{mutex: m, owner: b.Owner, token: token, since: b.Start, limit: system.Forever, mayHold: b.Sent(), place: -1}
	if w.queues() {
		h.waiter = w
		h.mayHold |= w.seats
	}
	if m.opts.maxHold > 0 {
		h.limit = b.Start + min(m.opts.maxHold, system.Forever-b.Start) // no overflow
	}
	h.until = min(m.opts.validFor(b.Start, b.ttl), h.limit)
	if h.planRenewal(b.Start); b.ttl < m.opts.ttl {
		h.renewAt = h.now()
	}
	h.due = h.next()
	h.handle = &Lease{h}
	return h.handle
}

func (h *holding) now() time.Duration { return h.mutex.opts.clock() }

// ended returns why the lease may not be used any more; nil if it may. Called
// under h.mu.
func (h *holding) ended() error {
	if h.err == nil && h.now() >= h.until {
		return h.expiry()
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
		return min(h.until, h.renewal.Start+h.mutex.opts.voteTimeout())
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
	case late != nil && now >= late.Start+h.mutex.opts.voteTimeout():
		h.mu.Unlock()
		late.Close(errNoVerdict)
		h.conclude(late, late.Verdict())
	case late == nil && now >= h.renewAt:
		b := h.renew()
		h.mu.Unlock()
		if v := b.Verdict(); v.IsFinal() {
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
	h.mu.Lock()
	why := h.ended()
	h.mu.Unlock()
	if isLost(why) {
		h.end(why)
	}
}

// abandon ends a lease whose handle was dropped without Unlock.
func (h *holding) abandon() {
	if b, was := h.end(ErrReleased); b != nil && was == nil {
		h.mutex.opts.events.Log(slog.LevelError, "a lease was dropped without Unlock; it is released now",
			"name", h.mutex.name, "owner", h.owner)
	}
}

// work marks the lease as one that a Do works under, unless it has ended: then it
// returns why, and the lease is released.
func (h *holding) work() error {
	h.mu.Lock()
	why := h.ended()
	h.working = why == nil
	h.mu.Unlock()
	if why != nil {
		h.lapse()
	}
	return why
}

// shut ends the lease because the client closes, and reports whether a Do works under
// it. The release is still to be sent: by that Do, so that nobody else comes in before
// fn returns, or by giveBack.
func (h *holding) shut() (working bool) {
	h.mu.Lock()
	if h.ended() != nil {
		h.mu.Unlock()
		h.end(ErrClosed) // its validity may be over, and the keeper has not looked yet
		return false
	}
	working = h.working
	contexts := h.mark(ErrClosed)
	h.unreleased = true
	if working {
		h.gone = make(chan struct{})
	}
	h.mu.Unlock()
	h.cancel(contexts, ErrClosed)
	return working
}

// giveBack queues the release of a lease that shut has ended, if no Do works under it,
// at those nodes that may hold its key and are in at. The ballot that it returns must
// be flushed; nil where nothing is to be released.
func (h *holding) giveBack(at quorum.NodeSet) *ballot {
	h.mu.Lock()
	if !h.unreleased || h.gone != nil {
		h.mu.Unlock()
		return nil
	}
	b, _ := h.queueRelease(context.Background(), ErrClosed, h.mayHold&at)
	h.mu.Unlock()
	h.mutex.client.keeper.remove(h)
	return b
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
	h.mu.Lock()
	left := h.unreleased && h.gone != nil && why == ErrReleased // Close left it to its Do
	if h.err != nil && !left {
		defer h.mu.Unlock()
		return nil, h.err
	}
	if h.now() >= h.until && !isLost(why) {
		was = h.expiry()
		why = was
	}
	var contexts contextSet
	if left {
		h.err = why
	} else {
		contexts = h.mark(why)
	}
	b, crowded := h.queueRelease(ctx, why, h.mayHold)
	if left {
		close(h.gone) // Close may go on: it finds the release queued
	}
	h.mu.Unlock()

	if lost, ok := why.(*LostError); ok {
		h.logLoss(lost)
	}
	h.cancel(contexts, why)
	h.mutex.client.keeper.remove(h)
	b.Flush(crowded)
	return b, was
}

// queueRelease queues the release of a lease that has ended for the reason why. The
// nodes in owing may hold its key: what they do not confirm they owe. Called under
// h.mu.
func (h *holding) queueRelease(ctx context.Context, why error, owing quorum.NodeSet) (b *ballot, crowded bool) {
	h.unreleased = false
	ticket := h.waiter.retires()
	b = h.mutex.newBallot(releasing, h.owner, protocol.WithTicket(protocol.Release.BySHA(h.mutex.keyArg, h.owner), ticket), h.now())
	b.ticket = ticket
	h.ends(ctx, why)
	b.trace.setCall(ctx)
	b.trace.setUnlock()
	return b, b.Queue(owing, true)
}

// refuse is the error of a lease that has ended for the reason why.
func (h *holding) refuse(op string, why error) error {
	if isLost(why) {
		return why // it says all
	}
	return fmt.Errorf("redlock: %s %q: %w", op, h.mutex.name, why)
}
