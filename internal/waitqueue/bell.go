package waitqueue

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// bell is how other goroutines wake a waiter's own.
type bell struct {
	wake chan struct{} // holds one signal after changes of signals

	mu      sync.Mutex // protects signals; innermost
	signals signals
}

// signals are what has become known to a waiter since its last attempt.
type signals struct {
	nodes    quorum.NodeSet // that are known to be ready for it
	woken    bool           // a node has woken it
	soon     bool           // it shall look within about a second
	now      bool           // it shall look at once
	rejoinBy time.Duration  // when nodes may have dropped its ticket, so it looks by then; 0: no such time
}

// ready records that a node has the lock reserved for the waiter: by a wake-up, or by the
// answer to its rollback.
func (b *bell) ready(node int, woken bool) {
	b.ring(func(s *signals) {
		s.nodes.Add(node)
		s.woken = s.woken || woken
	})
}

// challenge makes the waiter look again soon: a node woke its client by the ticket of a waiter
// that has left. If that happens again and again, it looks less often, but in time to show
// that its client lives.
func (b *bell) challenge() { b.ring(func(s *signals) { s.woken = true }) }

// lookSoon makes the waiter look again within about a second: it is the second in the queue
// now, or the foremost of its client.
func (b *bell) lookSoon() { b.ring(func(s *signals) { s.soon = true }) }

// lookNow makes the waiter look again at once.
func (b *bell) lookNow() { b.ring(func(s *signals) { s.now = true }) }

// rejoinBy makes the waiter look again by that instant. It may be called for each lock of a waiter for several, in any
// order.
func (b *bell) rejoinBy(at time.Duration) {
	b.ring(func(s *signals) {
		if s.rejoinBy == 0 || at < s.rejoinBy {
			s.rejoinBy = at
		}
	})
}

// ring changes the signals, and wakes the waiter's goroutine.
func (b *bell) ring(change func(*signals)) {
	b.mu.Lock()
	change(&b.signals)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // it has been woken, and will see the newest
	}
}

// read returns the signals.
func (b *bell) read() signals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.signals
}

// reset returns the signals and forgets them.
func (b *bell) reset() signals {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.signals
	b.signals = signals{}
	return s
}
