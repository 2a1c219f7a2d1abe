package lock

import "sync"

// spares are attempts and releases that nobody can reach any more, to be used again. quorum/reuse.go says which.
type spares struct {
	attempts, releases sync.Pool

	// Tests set these before the first call.
	given   func() // see Engine.WatchSpares
	reached func() // see Engine.SpoilSpares
}

// WatchSpares has given called for each attempt and release that is given back. Only tests do this, before the first call.
func (e *Engine) WatchSpares(given func()) { e.spares.given = given }

// SpoilSpares makes the engine use nothing again: what is given back is spoiled, and reached is called when
// somebody still reaches it, or that one panics. Only tests do this, before the first call.
func (e *Engine) SpoilSpares(reached func()) { e.spares.reached = reached }

// attempt returns an attempt that is new, or as good as new. The goroutine that takes it clears it. A connection's reader must
// not spend time on that: other callers wait for it.
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

// release returns a release that is new, or as good as new.
func (s *spares) release() *release {
	r, is := s.releases.Get().(*release)
	if !is {
		return new(release)
	}
	*r = release{}
	return r
}

// watched tells tests that one is given back.
func (s *spares) watched() {
	if s.given != nil {
		s.given()
	}
}

// GiveBack implements quorum.Spare.
func (a *Attempt) GiveBack() {
	s := &a.lock.engine.spares
	s.watched()
	if s.reached != nil {
		a.lock = nil
		a.Spoil(s.reached)
		return
	}
	s.attempts.Put(a)
}

// GiveBack implements quorum.Spare.
func (b *release) GiveBack() {
	s := &b.lock.engine.spares
	s.watched()
	if s.reached != nil {
		b.lock = nil
		b.Spoil(s.reached)
		return
	}
	s.releases.Put(b)
}
