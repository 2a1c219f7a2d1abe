package lease

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Reason is why a lease ended.
type Reason int

const (
	// A loss: the lease ended before it was to. redlock.LostReason has these values: keep their order.
	Expired    Reason = iota // its validity ended, and no renewal had been begun that could have prolonged it
	MaxHold                  // it was held for as long as its terms allow
	Revoked                  // a quorum of the nodes had lost it
	NoQuorum                 // its validity ended; its last renewal had failed, was under way, or was granted too late
	NotResumed               // Resume came too late, or another call resumed the lease: no Lease here ends so

	// No loss.
	Released    // its callers released it, or dropped its handles
	Transferred // its caller transferred it to another process
	Closed      // the client was closed
)

// reasons are the reasons in words.
var reasons = [...]string{Expired: "expired", MaxHold: "max hold", Revoked: "revoked", NoQuorum: "no quorum",
	NotResumed: "transfer", Released: "released", Transferred: "transferred", Closed: "closed"}

// String returns the reason in words.
func (r Reason) String() string { return reasons[r] }

// ErrReleased is the error of a lease that was released.
var ErrReleased = errors.New("the lease is released")

// End is the end of a lease.
type End struct {
	Reason Reason
	Holder string // the new owner, where the lease was Revoked and a quorum named it
	Err    error  // for users
}

// IsLoss reports whether the lease ended before it was to.
func (e *End) IsLoss() bool { return e.Reason < Released }

var (
	released = &End{Reason: Released, Err: ErrReleased}
	closed   = &End{Reason: Closed, Err: life.ErrClosed}
)

// Loss is why a lease was lost.
type Loss struct {
	Reason  Reason
	Holder  string          // as End has it
	Renewal *quorum.Failure // the renewal that showed it; nil if none did

	// Why no renewal was begun, of a lease that Expired; with neither, the process did not run in time.
	Unrenewed bool // its terms have no renewals
	Closed    bool // the client was closed while a Do went on
}

// Ending is what a Lock must do at the end of a lease.
type Ending struct {
	At         time.Duration // the instant of the release, on the client's clock
	KeepsKeys  bool          // the keys of the lease stay until they end by themselves
	RestsUntil time.Duration // on the client's clock: the lock is resting until then; 0: it is free
	KeysLast   time.Duration // how long a key of the owner may last, at most

	Transferred bool           // its keys stay at the nodes in Kept
	Kept        quorum.NodeSet // if it was Transferred
	Dropped     quorum.NodeSet // others that may hold its keys, if it was Transferred
	Passed      Passed         // where a transfer has changed its keys, also if that failed
}

// ending is the end of a lease, and the means to wait for it. It is protected by the lease's lock.
type ending struct {
	end     *End // nil while the lease is held
	expired *End // made by expiry

	first  part               // of the handle to which the lease was granted
	joined map[*part]struct{} // of the handles that joined it and are not released; nil if none has joined

	leaving    bool     // the lease is about to be transferred
	unreleased bool     // Shut has ended the lease, and its release is still to be sent
	passing    *Passing // nil until a transfer begins

	gone chan struct{} // made by Shut where a Do is running, closed when the last Do has released the lease
}

// ended returns why the lease may not be used any more; nil if it may. Called under l.mu.
func (l *Lease) ended() *End { return l.endedAt(l.cfg.Clock()) }

// endedAt is ended at the instant now.
func (l *Lease) endedAt(now time.Duration) *End {
	if l.ending.end == nil && now >= l.until {
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
		last := quorum.FailureOf(&b.Ballot)
		last.Late = b.Verdict() == quorum.Granted
		// The answers to the renewal before say more than that nobody has answered this one yet.
		if failure == nil || last.Count(quorum.IsKnown) > 0 {
			failure = last
		}
	}
	loss := Loss{Reason: Expired, Unrenewed: l.terms.RenewEvery == 0, Closed: l.ending.end == closed}
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

// end ends the lease for all its handles, and sends the release, unless that was done before or the keys are to stay.
func (l *Lease) end(end *End) { l.endBy(context.Background(), end, nil) }

// endBy ends the lease, and sends the release. The package's documentation lists its steps. If by is
// not nil, end is released or transferred, and only the handle of that part ends while others hold the lease: then b
// and was are nil. Else was is why the handle or the lease had ended before, and b is nil where nothing was sent
// because that had been done before.
func (l *Lease) endBy(ctx context.Context, end *End, by *part) (b *quorum.Ballot, was *End) {
	l.mu.Lock()
	// Close left the release to the lease's Dos. A transfer that was too late must not send it.
	left := by != nil && end == released && by.working && l.ending.unreleased && l.ending.gone != nil
	switch {
	case by != nil && by.released:
		l.mu.Unlock()
		return nil, released
	case l.ending.end != nil && !left:
		defer l.mu.Unlock()
		return nil, l.ending.end
	}
	now := l.cfg.Clock()
	if now >= l.until && !end.IsLoss() {
		was = l.expiry()
		end = was
	}
	var atEnd map[*endCall]struct{}
	switch {
	case left:
		by.working, by.released = false, was == nil
		if l.anyBut(by, isWorking) {
			l.mu.Unlock()
			return nil, was
		}
		if end.IsLoss() {
			l.ending.end = end
		}
	case by != nil && was == nil && l.anyBut(by, isHeld):
		atEnd, renewal := l.leave(by)
		l.mu.Unlock()
		if renewal != nil {
			renewal.Flush(false)
		}
		runAtEnd(atEnd, end)
		return nil, nil
	default:
		atEnd = l.mark(end)
	}
	b, yield := l.queueRelease(ctx, now, end, l.mayHold)
	if left {
		close(l.ending.gone) // Close may go on: it finds the release queued
	}
	l.mu.Unlock()

	if end.IsLoss() {
		l.logLoss(end)
	}
	runAtEnd(atEnd, end)
	l.renewer.remove(l)
	if b != nil {
		b.Flush(yield)
	}
	return b, was
}

// mark records that the lease has ended for all handles that hold it, and returns the functions to
// call. Called under l.mu.
func (l *Lease) mark(end *End) (atEnd map[*endCall]struct{}) {
	l.ending.end = end
	l.handle = nil
	if first := &l.ending.first; !first.released {
		atEnd = first.finish()
	}
	for p := range l.ending.joined {
		if of := p.finish(); atEnd == nil {
			atEnd = of
		} else {
			maps.Copy(atEnd, of)
		}
	}
	return atEnd
}

// queueRelease queues the release of a lease that has ended. The nodes in must may hold its
// key: what they do not confirm becomes an undo. b is nil if nothing is to be released. Called under l.mu at the
// instant now.
func (l *Lease) queueRelease(ctx context.Context, now time.Duration, end *End, must quorum.NodeSet) (b *quorum.Ballot, yield bool) {
	l.ending.unreleased = false
	e := Ending{At: now, KeysLast: l.keysLast(), KeepsKeys: l.terms.Delayed && end.IsLoss() && end.Reason != Revoked}
	// Where a quorum had lost the lease, the lock rests at the other nodes: with those that do not vote, as they forgot,
	// they may be a quorum.
	if until := l.Begun + l.terms.MinHold; l.terms.MinHold > 0 && until > now {
		e.RestsUntil = until
	}
	if p := l.ending.passing; p != nil {
		e.Passed = l.passed(p.sent)
		if end == transferred {
			e.Transferred, e.Kept, e.Dropped = true, p.kept, l.mayHold&^p.kept
		}
	}
	s := l.state()
	b = l.lock.BeginRelease(ctx, &l.Grant, e)
	s.RestsUntil = e.RestsUntil
	l.cfg.Observer.Ended(ctx, &l.Grant, s, end)
	if b != nil {
		yield = b.Queue(must, true)
	}
	l.announceChange()
	return b, yield
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
