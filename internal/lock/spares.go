package lock

import (
	"sync"

	"github.com/redlock-go/redlock/internal/quorum"
)

// spares are the attempts and releases that the client uses again. No goroutine reaches them any more: see quorum/reuse.go.
type spares struct {
	attempts, releases sync.Pool

	// watch gets each ballot that is given back, and reports whether the ballot may be used again. Only tests set
	// it, before the first lock.
	watch func(*quorum.Ballot) bool
}

// WatchSpares makes the engine call watch for each attempt and release that is given back. If watch returns false, the
// engine does not use it again. Only tests call WatchSpares, before the first lock.
func (e *Engine) WatchSpares(watch func(*quorum.Ballot) bool) { e.spares.watch = watch }

// attempt returns an attempt that is new or cleared. The goroutine that takes the attempt clears it. A connection's reader
// must not spend time on that: other callers wait for it.
func (s *spares) attempt() *Attempt {
	a, is := s.attempts.Get().(*Attempt)
	if !is {
		return new(Attempt)
	}
	plain := a.plain
	clear(plain)
	*a = Attempt{plain: plain}
	return a
}

// release returns a release that is new or cleared.
func (s *spares) release() *release {
	r, is := s.releases.Get().(*release)
	if !is {
		return new(release)
	}
	*r = release{}
	return r
}

// GiveBack implements quorum.Spare.
func (a *Attempt) GiveBack() {
	s := &a.lock.engine.spares
	a.lock = nil // a maker that still uses the attempt panics
	if s.watch == nil || s.watch(&a.Ballot) {
		s.attempts.Put(a)
	}
}

// GiveBack implements quorum.Spare.
func (b *release) GiveBack() {
	s := &b.lock.engine.spares
	b.lock = nil // as above
	if s.watch == nil || s.watch(&b.Ballot) {
		s.releases.Put(b)
	}
}
