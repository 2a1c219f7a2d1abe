package lock

import (
	"sync"

	"github.com/redlock-go/redlock/internal/quorum"
)

// spares are the attempts and releases that the client uses again. No goroutine reaches them any more: see quorum/reuse.go.
type spares struct {
	attempts, releases sync.Pool

	// Tests set these before the first lock.
	given   func() // see Engine.WatchSpares
	reached func() // see Engine.SpoilSpares
}

// WatchSpares makes the engine call given for each attempt and release that is given back. Only tests call it, before the
// first lock.
func (e *Engine) WatchSpares(given func()) { e.spares.given = given }

// SpoilSpares makes the engine spoil what is given back, and use none of it again: see Ballot.Spoil, which gets reached.
// Only tests call it, before the first lock.
func (e *Engine) SpoilSpares(reached func()) { e.spares.reached = reached }

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

// watched calls the tests' functions, for a spare that b is a part of. It reports whether the spare was spoiled.
func (s *spares) watched(b *quorum.Ballot) (spoiled bool) {
	if s.given != nil {
		s.given()
	}
	if s.reached != nil {
		b.Spoil(s.reached)
	}
	return s.reached != nil
}

// GiveBack implements quorum.Spare.
func (a *Attempt) GiveBack() {
	s := &a.lock.engine.spares
	a.lock = nil // a maker that still uses the attempt panics
	if !s.watched(&a.Ballot) {
		s.attempts.Put(a)
	}
}

// GiveBack implements quorum.Spare.
func (b *release) GiveBack() {
	s := &b.lock.engine.spares
	b.lock = nil // as above
	if !s.watched(&b.Ballot) {
		s.releases.Put(b)
	}
}
