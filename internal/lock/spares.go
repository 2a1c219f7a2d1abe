package lock

import "sync"

// spares are attempts and releases that nobody can reach any more, to be used again. quorum/reuse.go says which.
type spares struct {
	attempts, releases sync.Pool
	reached            func() // see Engine.SpoilSpares; nil: they are used again
}

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

// GiveBack implements quorum.Spare.
func (a *Attempt) GiveBack() {
	s, plain := &a.lock.engine.spares, a.plain
	if s.reached != nil {
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
	if s.reached != nil {
		b.Spoil(s.reached)
		return
	}
	*b = release{}
	s.releases.Put(b)
}
