package lease

import (
	"time"
)

// ExtendTo prolongs a lease for another time than its lock's. docs/safety.md (A lease of another length) has
// the argument.

// Span is for how long a renewal prolongs a lease.
type Span struct {
	TTL      time.Duration // of the keys at the nodes
	Validity time.Duration // from the start of the ballot
}

// extended is what the calls of ExtendTo have asked for. It is protected by the lease's lock.
type extended struct {
	keysUntil  time.Duration // every renewal makes the keys last so long at least, on the client's clock
	longest    time.Duration // the longest ttl of any call
	generation int           // counts the calls after which keys may end earlier than before
}

// usualSpan returns for how long a renewal that begins now prolongs the lease: for the terms' ttl, but
// no key may end earlier than an ExtendTo has asked for. Called under l.mu.
func (l *Lease) usualSpan() Span {
	return Span{TTL: max(l.terms.TTL, l.renewal.keysUntil-l.now()), Validity: l.terms.Validity}
}

// extendKeys records that an ExtendTo that began at start is about to be queued. Where keys may end earlier
// by it than by a renewal before, the validity is shortened first, and no renewal that was queued
// before prolongs it any more. Called under l.mu.
func (l *Lease) extendKeys(start time.Duration, to *Span) {
	r := &l.renewal
	if to.TTL < l.terms.TTL || start+to.TTL < r.keysUntil {
		r.generation++
		l.until = min(l.until, start+to.Validity)
		l.hastenRenewal(start)
		l.renewer.move(l, l.next())
	}
	r.keysUntil, r.longest = start+to.TTL, max(r.longest, to.TTL)
}

// hastenRenewal brings the next scheduled renewal forward if the validity, counted from start, is shorter than
// that of the terms. Called under l.mu.
func (l *Lease) hastenRenewal(start time.Duration) {
	if left := l.until - start; left < l.terms.Validity && l.terms.RenewEvery > 0 && l.until < l.limit {
		l.renewal.at = min(l.renewal.at, start+left/3)
	}
}
