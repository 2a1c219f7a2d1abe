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

// attempt returns an attempt that is new, or as good as new.
func (s *spares) attempt() *Attempt {
	if a, is := s.attempts.Get().(*Attempt); is {
		return a
	}
	return new(Attempt)
}

// release returns a release that is new, or as good as new.
func (s *spares) release() *release {
	if r, is := s.releases.Get().(*release); is {
		return r
	}
	return new(release)
}

// watched tells tests that one is given back.
func (s *spares) watched() {
	if s.given != nil {
		s.given()
	}
}

// GiveBack implements quorum.Spare.
func (a *Attempt) GiveBack() {
	s, plain := &a.lock.engine.spares, a.plain
	s.watched()
	if s.reached != nil {
		a.lock = nil
		a.Spoil(s.reached)
		return
	}
	clear(plain)
	*a = Attempt{plain: plain}
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
	*b = release{}
	s.releases.Put(b)
}
