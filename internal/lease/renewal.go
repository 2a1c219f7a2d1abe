package lease

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// minRenewRetry is how soon a failed renewal is tried again, at the earliest. That is after
// a node timeout, or a quarter of the validity that is left.
const minRenewRetry = 10 * time.Millisecond

// errNoVerdict is the cause of votes that were still out when a scheduled renewal timed out.
var errNoVerdict = errors.New("no answer within the node timeout")

// schedule is when a lease is renewed, and what its renewals have shown. It is protected by
// the lease's lock.
type schedule struct {
	at       time.Duration   // when to renew next
	began    bool            // a scheduled renewal was begun
	running  *renewal        // the scheduled renewal that is under way; nil if there is none
	keysEnd  time.Duration   // the keys may stand so long by the renewals, whatever their verdicts
	failure  *quorum.Failure // of the last renewal; nil if it succeeded
	restored quorum.NodeSet  // nodes where the key was missing, since the last renewal that succeeded
	handing  int             // hand-offs that are under way: no other renewal begins
	untold   bool            // the lease became a shared one, and no renewal since then tells the nodes
	extended                 // by ExtendTo
}

// renewal is a ballot that prolongs a lease, and the watcher of itself.
type renewal struct {
	quorum.Ballot
	lease      *Lease
	scheduled  bool          // nobody awaits the verdict
	until      time.Duration // the validity, if it is granted
	generation int           // of the lease's keys when it was queued
}

// planRenewal sets the next renewal after one that began at start. A part of the time is
// random, so that leases that were granted together are not renewed together for ever. But
// the instants are rounded, so that those of many leases coincide and share their writes.
// Called under l.mu.
func (l *Lease) planRenewal(start time.Duration) {
	terms := l.terms
	every := terms.RenewEvery
	l.renewal.at = system.Forever
	if every > 0 && l.until < l.limit {
		at := start + every - terms.Random.Below(every/4+1, "renewing")
		l.renewal.at = at - at%(every/64+1)
	}
	l.hastenRenewal(start)
}

// queueRenewal queues a renewal. Called under l.mu: whether the lease is still held is
// checked, and the renewal queued, under the lock under which its release is queued. So on
// every connection a renewal is ahead of the release, and none ever comes after it. to is nil unless
// it is an ExtendTo.
func (l *Lease) queueRenewal(ctx context.Context, scheduled bool, to *Span) (b *renewal, yield bool) {
	b = &renewal{lease: l, scheduled: scheduled}
	span := l.usualSpan()
	if to != nil {
		span = *to
	}
	tells := scheduled && l.terms.RenewEvery == 0 && l.lock.Shared() // and prolongs nothing
	if tells {
		span.TTL = 0
	}
	l.lock.BeginRenewal(ctx, &b.Ballot, l, span.TTL, to != nil && to.TTL > l.terms.TTL)
	if to != nil {
		l.extendKeys(b.Start, to)
	}
	if tells {
		span.Validity = l.until - b.Start
	}
	return b, l.queue(b, span.Validity)
}

// queue queues a renewal that has begun, for a validity from its start. Called under l.mu.
func (l *Lease) queue(b *renewal, validity time.Duration) (yield bool) {
	b.until, b.generation = min(b.Start+validity, l.limit), l.renewal.generation
	b.Watcher, b.LateUntil = b, l.until
	yield = b.Queue(0, true)
	l.mayHold |= b.Sent()
	l.renewal.keysEnd = max(l.renewal.keysEnd, b.Start+validity)
	return yield
}

// renew begins a scheduled renewal. Called under l.mu.
func (l *Lease) renew() *renewal {
	l.renewal.began, l.renewal.untold = true, false
	if l.handle != nil && !l.renewer.keep.Load() {
		// From the first renewal on, only the user refers to the handle.
		l.releaseIfDropped(l.handle)
		l.handle = nil
	}
	b, _ := l.queueRenewal(context.Background(), true, nil)
	l.renewal.running = b
	l.renewer.move(l, l.next())
	return b
}

// Answered implements quorum.Watcher. It returns what a node's vote counts as. That the key
// is the lease's proves nothing where an earlier renewal, which did not succeed, found it
// missing and created it anew. That counts also where its answer came too late. (The answer
// to the earlier one is ahead on the same connection; it is unknown only where that broke.)
// Nor does it count where the node is still to undo the attempt, which became a lease at
// other nodes that had parked it: the undo takes the key away again.
func (r *renewal) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	l, node := r.lease, v.Node
	undone := node.HasUndo(l.Owner)
	if a.Wanted {
		l.Wanted.Tell()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Count == quorum.Recreated {
		l.renewal.restored.Add(node.Index)
	} else if a.Count == quorum.Yes && l.renewal.restored.Has(node.Index) {
		a.Count = quorum.Recreated
	}
	switch {
	case a.Count == quorum.No && l.ending.passing.isValue(a.Holder):
		// Nobody else has had the key since a hand-off that failed.
		a.Count = quorum.NoAnswer
		if l.renewal.handing == 0 && l.ending.end == nil {
			l.lock.TakeBack(l, 1<<node.Index)
		}
	case undone && a.Count == quorum.Yes:
		a.Count = quorum.NoAnswer
	case undone && a.Count == quorum.Recreated:
		a.Count = quorum.No
	}
	return a
}

// Decided implements quorum.Watcher.
func (r *renewal) Decided(v quorum.Verdict, late bool) {
	if r.scheduled || late {
		r.lease.conclude(r, v)
	}
}

// conclude takes the verdict of a renewal, and returns why the lease has ended; nil if it has
// not. A verdict counts only before the validity without it ends: a lease that has ended
// stays ended, whatever the nodes said meanwhile.
func (l *Lease) conclude(b *renewal, v quorum.Verdict) *End {
	l.mu.Lock()
	end := l.ended()
	if end == nil && v == quorum.Revoked {
		end = l.revoked(&b.Ballot)
	}
	concluded := l.renewal.running != b // a verdict of b was taken before, or b is an Extend's
	if !concluded {
		l.renewal.running = nil
	}
	if end != nil {
		l.mu.Unlock()
		l.end(end)
		return l.End()
	}
	terms := l.terms
	endangered, first, left := false, false, time.Duration(0)
	if v == quorum.Granted {
		// Of two renewals the one that began later counts.
		if b.generation == l.renewal.generation {
			l.until = max(l.until, b.until)
		}
		l.renewal.failure, l.renewal.restored = nil, 0
		l.planRenewal(b.Start)
	} else if !concluded {
		endangered, first, left = true, l.renewal.failure == nil, l.until-l.now()
		l.renewal.at = l.now() + max(min(terms.NodeTimeout, left/4), minRenewRetry)
	}
	if l.renewal.untold {
		l.renewal.at = l.now()
	}
	if v != quorum.Granted && (endangered || terms.RenewEvery == 0) {
		l.renewal.failure = quorum.FailureOf(&b.Ballot)
	}
	l.cfg.Observer.Renewed(l, &b.Ballot, v == quorum.Granted)
	l.renewer.move(l, l.next())
	failure := l.renewal.failure
	l.mu.Unlock()
	if endangered {
		l.cfg.Observer.Endangered(l, left, failure, first)
	}
	return nil
}

// Extension is what an Extend came to. All fields are zero if it prolonged the lease.
type Extension struct {
	End     *End            // why the lease has ended
	Cause   error           // ctx's, if that ended the call
	Failure *quorum.Failure // of the ballot; nil if there was none
}

// extendAs prolongs the lease as one of the lock as, nil if that stays; to is as queueRenewal has it.
func (l *Lease) extendAs(ctx context.Context, as Lock, to *Span) Extension {
	e := l.extend(ctx, as, to)
	if e.Cause == nil && e.Failure != nil && e.Failure.LackedScripts() { // they are loaded by now
		e = l.extend(ctx, nil, to)
	}
	return e
}

func (l *Lease) extend(ctx context.Context, as Lock, to *Span) Extension {
	l.mu.Lock()
	if end := l.ended(); end != nil {
		l.mu.Unlock()
		l.expire()
		return Extension{End: end}
	}
	if l.renewal.handing > 0 { // its commands could put keys back behind the hand-off
		l.mu.Unlock()
		return Extension{End: handedOff}
	}
	if as != nil {
		l.lock = as
	}
	b, yield := l.queueRenewal(ctx, false, to)
	l.mu.Unlock()
	b.Flush(yield)

	v, err := b.Await(ctx, l.terms.NodeTimeout, nil)
	end := l.conclude(b, v)
	if end != nil || v == quorum.Granted {
		return Extension{End: end}
	}
	return Extension{Cause: err, Failure: quorum.FailureOf(&b.Ballot)}
}
