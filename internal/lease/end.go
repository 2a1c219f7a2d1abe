package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Reason is why a lease ended.
type Reason int

const (
	Released Reason = iota // its caller released it, or dropped its handle
	Closed                 // the client was closed
	Expired                // its validity ended, and no renewal had been begun that could have prolonged it
	MaxHold                // it was held for as long as its terms allow
	Revoked                // a quorum of the nodes had lost it
	NoQuorum               // its renewals failed until its validity ended
)

// ErrReleased is the error of a lease that was released.
var ErrReleased = errors.New("the lease is released")

// End is the end of a lease.
type End struct {
	Reason Reason
	Holder string // the new owner, where the lease was Revoked and a quorum named it
	Err    error  // for users
}

// IsLoss reports whether the lease ended before it was to.
func (e *End) IsLoss() bool { return e.Reason > Closed }

var (
	released = &End{Reason: Released, Err: ErrReleased}
	closed   = &End{Reason: Closed, Err: life.ErrClosed}
)

// Loss is why a lease was lost.
type Loss struct {
	Reason  Reason
	Holder  string          // as End has it
	Renewal *quorum.Failure // the renewal that showed it; nil if none did
}

// ending is the end of a lease, and the means to wait for it. It is protected by the lease's lock.
type ending struct {
	end     *End // nil while the lease is held
	expired *End // made by expiry
	done    chan struct{}
	atEnd   map[*func(*End)]struct{}

	working    bool          // a Do is running: Close leaves the release to it
	gone       chan struct{} // made by Shut where a Do is running, closed when that has released the lease
	unreleased bool          // Shut has ended the lease, and its release is still to be sent
}

// ended returns why the lease may not be used any more; nil if it may. Called under l.mu.
func (l *Lease) ended() *End {
	if l.ending.end == nil && l.now() >= l.until {
		return l.expiry()
	}
	return l.ending.end
}

// End returns why the lease may not be used any more; nil if it may.
func (l *Lease) End() *End {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended()
}

// lost returns the end of a lease that is lost.
func (l *Lease) lost(loss Loss) *End {
	return &End{Reason: loss.Reason, Holder: loss.Holder, Err: l.cfg.LostError(l, loss)}
}

// expiry returns the end of a lease whose validity is over: the same one at each call. Called
// under l.mu.
func (l *Lease) expiry() *End {
	if l.ending.expired != nil {
		return l.ending.expired
	}
	failure := l.renewal.failure
	if b := l.renewal.running; b != nil {
		failure = quorum.FailureOf(&b.Ballot)
		failure.Late = b.Verdict() == quorum.Granted
	}
	loss := Loss{Reason: Expired}
	switch {
	case l.until >= l.limit:
		loss.Reason = MaxHold
	case failure != nil:
		loss.Reason, loss.Renewal = NoQuorum, failure
	}
	l.ending.expired = l.lost(loss)
	return l.ending.expired
}

// revoked returns the end of a lease that the renewal by found to be gone at a quorum.
func (l *Lease) revoked(by *quorum.Ballot) *End {
	loss := Loss{Reason: Revoked, Renewal: quorum.FailureOf(by)}
	if holder, nodes := by.Leader(); nodes >= loss.Renewal.Need && protocol.IsHolder(holder) {
		loss.Holder = holder
	}
	return l.lost(loss)
}

// expire ends a lease whose validity is over.
func (l *Lease) expire() {
	if end := l.End(); end != nil && end.IsLoss() {
		l.end(end)
	}
}

// drop ends a lease whose handle was dropped without a release.
func (l *Lease) drop() {
	if b, was := l.end(released); b != nil && was == nil {
		l.cfg.Events.Log(slog.LevelError, "a lease was dropped without Unlock; it is released now", "name", l.Name, "owner", l.Owner)
	}
}

// Work marks the lease as one that a Do works under. If the lease has ended, Work returns why,
// and releases it.
func (l *Lease) Work() *End {
	l.mu.Lock()
	end := l.ended()
	l.ending.working = end == nil
	l.mu.Unlock()
	if end != nil {
		l.expire()
	}
	return end
}

// Shut ends the lease because the client closes, and reports whether a Do works under it. The
// release is still to be sent: by that Do, so that no other caller gets the lock before its
// fn returns, or by GiveBack.
func (l *Lease) Shut() (working bool) {
	l.mu.Lock()
	if l.ended() != nil {
		l.mu.Unlock()
		l.end(closed) // its validity may be over, and the renewer has not looked yet
		return false
	}
	working = l.ending.working
	atEnd := l.mark(closed)
	l.ending.unreleased = true
	if working {
		l.ending.gone = make(chan struct{})
	}
	l.mu.Unlock()
	runAtEnd(atEnd, closed)
	return working
}

// GiveBack queues the release of a lease that Shut has ended, if no Do works under it, at
// those nodes that may hold its key and are in at. The ballot that it returns must be
// flushed; nil if nothing is to be released.
func (l *Lease) GiveBack(at quorum.NodeSet) *quorum.Ballot {
	l.mu.Lock()
	if !l.ending.unreleased || l.ending.gone != nil {
		l.mu.Unlock()
		return nil
	}
	b, _ := l.queueRelease(context.Background(), closed, l.mayHold&at)
	l.mu.Unlock()
	l.renewer.remove(l)
	return b
}

// AwaitEnd waits until a lease that was shut is released by its Do, or over with its keys.
func (l *Lease) AwaitEnd() {
	l.mu.Lock()
	end := max(l.until, l.renewal.keysEnd)
	l.mu.Unlock()
	timer := time.NewTimer(end - l.now())
	defer timer.Stop()
	select {
	case <-l.ending.gone:
	case <-timer.C:
	}
}

// Release ends the lease because its caller releases it, and returns when a quorum confirmed
// the release, or after the node timeout. ctx only identifies the call for tracing; it does
// not cancel the release. Release returns nil and nil if a quorum confirmed, or if the lease
// was released before; else why the lease had ended before; else the failed ballot.
func (l *Lease) Release(ctx context.Context) (was *End, failure *quorum.Failure) {
	b, was := l.endBy(ctx, released)
	switch {
	case b == nil && was.Reason == Released:
		return nil, nil
	case b == nil:
		return was, nil
	}
	v, _ := b.Await(context.Background(), l.terms.NodeTimeout, nil)
	l.released(b)
	switch {
	case was != nil:
		return was, nil
	case v != quorum.Granted:
		return nil, quorum.FailureOf(b)
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.NotFound }) && l.now() < l.Until():
		return l.lost(Loss{Reason: Revoked}), nil
	}
	return nil, nil
}

// released informs the lock of a release.
func (l *Lease) released(b *quorum.Ballot) {
	l.mu.Lock()
	lock := l.lock
	l.mu.Unlock()
	lock.Released(l, b)
}

// end ends the lease, and sends the release. was is why it had ended before; b is nil where
// nothing was sent because that had been done before.
func (l *Lease) end(end *End) (b *quorum.Ballot, was *End) { return l.endBy(context.Background(), end) }

// endBy is end for a call of the user's. The package's documentation lists its steps. If b is
// nil, was is not.
func (l *Lease) endBy(ctx context.Context, end *End) (b *quorum.Ballot, was *End) {
	l.mu.Lock()
	left := l.ending.unreleased && l.ending.gone != nil && end.Reason == Released // Close left it to its Do
	if l.ending.end != nil && !left {
		defer l.mu.Unlock()
		return nil, l.ending.end
	}
	if l.now() >= l.until && !end.IsLoss() {
		was = l.expiry()
		end = was
	}
	var atEnd map[*func(*End)]struct{}
	if left {
		l.ending.end = end
	} else {
		atEnd = l.mark(end)
	}
	b, yield := l.queueRelease(ctx, end, l.mayHold)
	if left {
		close(l.ending.gone) // Close may go on: it finds the release queued
	}
	l.mu.Unlock()

	if end.IsLoss() {
		l.logLoss(end)
	}
	runAtEnd(atEnd, end)
	l.renewer.remove(l)
	b.Flush(yield)
	return b, was
}

// mark records that the lease has ended, and returns the functions to call. Called under l.mu.
func (l *Lease) mark(end *End) (atEnd map[*func(*End)]struct{}) {
	l.ending.end = end
	l.handle = nil
	if l.ending.done != nil {
		close(l.ending.done)
	}
	atEnd, l.ending.atEnd = l.ending.atEnd, nil
	return atEnd
}

// queueRelease queues the release of a lease that has ended. The nodes in must may hold its
// key: what they do not confirm becomes an undo. Called under l.mu.
func (l *Lease) queueRelease(ctx context.Context, end *End, must quorum.NodeSet) (b *quorum.Ballot, yield bool) {
	l.ending.unreleased = false
	b = l.lock.BeginRelease(ctx, l)
	l.cfg.Observer.Ended(ctx, l, end)
	return b, b.Queue(must, true)
}

// logLoss logs that the lease is lost: at level Info if its terms asked for that end, else at
// level Error.
func (l *Lease) logLoss(e *End) {
	about := []any{"name", l.Name, "owner", l.Owner, "reason", e.Reason.String(), "holder", e.Holder, "error", e.Err}
	if e.Reason == MaxHold || e.Reason == Expired && l.terms.RenewEvery == 0 {
		l.cfg.Events.Log(slog.LevelInfo, "a lease has run out, as its options say", about...)
		return
	}
	l.cfg.Events.Log(slog.LevelError, "a lease is lost", about...)
}

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case Released:
		return "released"
	case Closed:
		return "closed"
	case Expired:
		return "expired"
	case MaxHold:
		return "max hold"
	case Revoked:
		return "revoked"
	default:
		return "no quorum"
	}
}
