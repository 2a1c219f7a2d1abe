package lease

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Handle is a user's reference to a lease. The lease is granted to its first handle; others may
// join it, and then each is released by itself. The lease is released with the last one.
type Handle struct {
	lease  *Lease
	joined *part // nil: it is the first
}

// part is what one handle has of the lease, without the handle itself, which the lease must not
// refer to. It is protected by the lease's lock.
type part struct {
	done  chan struct{} // nil until somebody asks for it
	atEnd map[*endCall]struct{}

	released bool // its caller released it, or dropped the handle
	working  bool // a Do is running under it: Close leaves the release to it

	share Lock // what the lease becomes one of when only handles with a share are left; nil if the handle needs it exclusively
}

// finish closes Done, and returns the functions to call. It is called once, under the lease's
// lock, when the handle or the lease ends.
func (p *part) finish() (atEnd map[*endCall]struct{}) {
	if p.done != nil {
		close(p.done)
	}
	atEnd, p.atEnd = p.atEnd, nil
	return atEnd
}

// anyBut reports whether one of the lease's handles, other than that of p, is as is says. Called
// under l.mu.
func (l *Lease) anyBut(p *part, is func(*part) bool) bool {
	if f := &l.ending.first; f != p && is(f) {
		return true
	}
	for other := range l.ending.joined {
		if other != p && is(other) {
			return true
		}
	}
	return false
}

func isHeld(p *part) bool      { return !p.released }
func isWorking(p *part) bool   { return p.working }
func isExclusive(p *part) bool { return !p.released && p.share == nil }

// leave records that a handle has ended while others hold the lease, and returns the functions to
// call. If the others asked for shares, the lease is a shared one from now on, and leave returns the renewal
// that tells the nodes, which must be flushed; where a renewal or a transfer is under way, that follows at once.
// docs/safety.md has the argument. Called under l.mu.
func (l *Lease) leave(p *part) (atEnd map[*endCall]struct{}, b *renewal) {
	p.released, p.working = true, false
	delete(l.ending.joined, p)
	if !l.lock.Shared() && !l.anyBut(nil, isExclusive) {
		for other := range l.ending.joined {
			l.lock = other.share // all of them have the same keys and terms
			break
		}
		l.renewal.untold = true
		if l.renewal.running == nil && l.renewal.transfers == 0 {
			b = l.renew(l.cfg.Clock())
		} else {
			l.renewal.at = l.cfg.Clock()
		}
		l.announceChange()
	}
	return p.finish(), b
}

// Bind makes h the lease's first handle. From the start of the first renewal on, the lease notices
// that the garbage collector found nobody who refers to h any more; then h is released. Most leases
// end sooner, and cost nothing for it.
func (l *Lease) Bind(h *Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.lease = l
	switch {
	case l.ending.end != nil:
	case l.renewal.began:
		l.releaseIfDropped(h)
	default:
		l.handle = h
	}
}

// IsShare reports whether h joined its lease for a share: then the lease need not stay exclusive for it.
func (h *Handle) IsShare() bool { return h.joined != nil && h.joined.share != nil }

// Join makes h a further handle of the lease of outer. shared reports whether h asks for a share; to is the
// lock of which the lease becomes one when only such handles are left, as Downgrade has it, or nil if it stays
// exclusive. Join returns why outer does not hold what h asks for any more; nil if h has joined. The
// lease notices at any time that h was dropped.
func (h *Handle) Join(outer *Handle, shared bool, to Lock) *End {
	l := outer.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := outer.ended(); end != nil {
		return end
	}
	if l.ending.leaving {
		return transferred
	}
	if !shared && l.lock.Shared() {
		return released // what it held exclusively
	}
	h.lease, h.joined = l, &part{share: to}
	if l.ending.joined == nil {
		l.ending.joined = make(map[*part]struct{})
	}
	l.ending.joined[h.joined] = struct{}{}
	l.releaseIfDropped(h)
	return nil
}

// releaseIfDropped has h released when nobody refers to it any more: neither the lease nor the copy of h
// does.
func (l *Lease) releaseIfDropped(h *Handle) {
	if !l.renewer.keep.Load() {
		runtime.AddCleanup(h, drop, *h)
	}
}

// drop releases a handle that was dropped without a release.
func drop(h Handle) {
	l := h.lease
	switch b, was := l.endBy(context.Background(), released, h.part()); {
	case was != nil: // it was over before
	case b != nil:
		l.cfg.Events.Log(slog.LevelError, "a lease was dropped without Unlock; it is released now", "name", l.Name, "owner", l.Owner)
	default:
		l.cfg.Events.Log(slog.LevelError, "a lease was dropped without Unlock; other callers hold it with the same owner, so it goes on",
			"name", l.Name, "owner", l.Owner)
	}
}

// Lease returns the lease of the handle.
func (h *Handle) Lease() *Lease { return h.lease }

func (h *Handle) part() *part {
	if h.joined != nil {
		return h.joined
	}
	return &h.lease.ending.first
}

// ended returns why the handle may not be used any more; nil if it may. Called under the lease's
// lock.
func (h *Handle) ended() *End {
	if h.part().released {
		return released
	}
	return h.lease.ended()
}

// End returns why the handle may not be used any more; nil if it may.
func (h *Handle) End() *End {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.ended()
}

// Remaining returns for how long the lease is still valid; 0 when it or the handle has ended.
func (h *Handle) Remaining() time.Duration {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.part().released {
		return 0
	}
	return l.remaining()
}

// Extend prolongs the lease, for all its handles, to its full validity from now.
func (h *Handle) Extend(ctx context.Context) Extension { return h.extendAs(ctx, nil, nil) }

// Downgrade makes the lease, for all its handles, one of the lock to, which others may hold at the
// same time, and prolongs it. The lease is shared before any node is asked, and stays so whatever
// the nodes answer: a node that has not executed the renewal refuses more than it needs to. to must have
// the keys and the terms of the lease's lock.
func (h *Handle) Downgrade(ctx context.Context, to Lock) Extension {
	e := h.extendAs(ctx, to, nil)
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.end == nil && l.lock.Shared() {
		l.announceChange()
	}
	return e
}

// ExtendTo prolongs the lease, for all its handles, for a span from now, or shortens it to that; the keys stand
// until the minimum hold is over. If the span is longer than that of the lock's terms, the nodes must have its ttl on
// record to vote.
func (h *Handle) ExtendTo(ctx context.Context, to Span) Extension {
	to.TTL = max(to.TTL, h.lease.Begun+h.lease.terms.MinHold-h.lease.cfg.Clock())
	return h.extendAs(ctx, nil, &to)
}

// extendAs prolongs the lease as one of the lock as, nil if that stays; to is as queueRenewal has it.
func (h *Handle) extendAs(ctx context.Context, as Lock, to *Span) Extension {
	if end := h.End(); end == released {
		return Extension{End: end}
	}
	return h.lease.extendAs(ctx, as, to)
}

// Work marks the handle as one that a Do works under. If it has ended, Work returns why, and
// releases the lease if that is over.
func (h *Handle) Work() *End {
	l := h.lease
	l.mu.Lock()
	end := h.ended()
	h.part().working = end == nil
	l.mu.Unlock()
	if end != nil {
		l.expire()
	}
	return end
}

// Release ends the handle because its caller releases it. If it is the lease's last one, the lease ends, and
// Release returns when a quorum confirmed the release, or after the node timeout. ctx only identifies the call for
// tracing; it does not cancel the release. Release returns nil and nil if a quorum confirmed, if others
// go on holding the lease, or if the handle was released before; else why the lease had ended before; else the
// failed ballot.
func (h *Handle) Release(ctx context.Context) (was *End, failure *quorum.Failure) {
	l := h.lease
	b, was := l.endBy(ctx, released, h.part())
	switch {
	case b == nil && was == released:
		return nil, nil
	case b == nil:
		return was, nil
	}
	defer b.Leave() // a Failure is a copy
	v, _ := b.Await(context.Background(), l.terms.NodeTimeout, nil)
	l.mu.Lock()
	lock := l.lock
	l.mu.Unlock()
	lock.Released(&l.Grant, b)
	switch {
	case was != nil:
		return was, nil
	case v != quorum.Granted:
		return nil, quorum.FailureOf(b)
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.NotFound }) && l.cfg.Clock() < l.Until():
		return l.lost(Loss{Reason: Revoked}), nil
	}
	return nil, nil
}

// Signal reports to the holder of a lease that others want the lock. It may be told before the lease
// is known to be granted.
type Signal struct {
	told chan struct{} // closed when it is

	mu     sync.Mutex // protects what follows; Lease.mu comes before it
	isTold bool
	lease  *Lease // nil until it has started
}

// NewSignal makes the signal of one attempt.
func NewSignal() *Signal { return &Signal{told: make(chan struct{})} }

// Told returns a channel that is closed when others want the lock; nil without a signal.
func (s *Signal) Told() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.told
}

// Tell records that others want the lock. Further calls do nothing.
func (s *Signal) Tell() {
	if s == nil {
		return
	}
	s.mu.Lock()
	again, l := s.isTold, s.lease
	s.isTold = true
	s.mu.Unlock()
	if again {
		return
	}
	close(s.told)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.end == nil {
		l.cfg.Observer.Wanted(&l.Grant, l.state())
	}
}

// start makes the signal that of a lease that has started, and reports to the Observer what became known
// before. Called under l.mu.
func (s *Signal) start(l *Lease) {
	s.mu.Lock()
	s.lease = l
	told := s.isTold
	s.mu.Unlock()
	if told {
		l.cfg.Observer.Wanted(&l.Grant, l.state())
	}
}
