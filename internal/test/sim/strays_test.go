package sim

import (
	"fmt"
	"sync"
	"time"
)

// simStrays records the answers that reach a ballot after it was given back. Engines lead to it, so
// it must not lead to the history: see fate.
type simStrays struct {
	now func() time.Duration

	mu  sync.Mutex // protects what follows
	all []simStray
}

type simStray struct {
	at     time.Duration
	client int
}

// of returns what a client's engine calls for each of them.
func (s *simStrays) of(client int) (reached func()) {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, simStray{s.now(), client})
	}
}

// report records them as violations.
func (s *simStrays) report(h *simHistory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stray := range s.all {
		h.failAt(stray.at, fmt.Sprintf("client %d reached a ballot that was given back", stray.client))
	}
}
