package lease

import "sync"

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
		l.cfg.Observer.Wanted(l)
	}
}

// start makes the signal that of a lease that has started, and reports to the Observer what became known
// before. Called under l.mu.
func (s *Signal) start(l *Lease) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.lease = l
	told := s.isTold
	s.mu.Unlock()
	if told {
		l.cfg.Observer.Wanted(l)
	}
}
