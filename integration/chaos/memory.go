package chaos

import (
	"sync"
	"time"
)

// Memory records which nodes lost their memory, or a part of it, and when. It is safe for
// concurrent use.
type Memory struct {
	Nodes int           // their number
	TTL   time.Duration // the longest ttl of any lease

	mu     sync.Mutex
	losses []memoryLoss
}

type memoryLoss struct {
	node   int
	within Span
}

// Forgot records that a node lost its memory at an instant within the span.
func (m *Memory) Forgot(node int, within Span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.losses = append(m.losses, memoryLoss{node, within})
}

// majorityForgot reports whether a majority of the nodes may have lost their memory
// within the span. Nodes that lost it one after the other count, too: a lease that was
// granted or renewed before may have been forgotten by all of them.
func (m *Memory) majorityForgot(within Span) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	forgetful := map[int]bool{}
	for _, loss := range m.losses {
		if loss.within.From <= within.To && loss.within.To >= within.From {
			forgetful[loss.node] = true
		}
	}
	return len(forgetful) > m.Nodes/2
}
