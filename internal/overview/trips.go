package overview

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// Trips remembers each master's round trip in the last Ping. The client needs its Vote as a hook,
// and the Model the Trips. It is safe for concurrent use.
type Trips struct {
	mu   sync.Mutex // protects last; nothing else is locked under it
	last map[int]time.Duration
}

// Vote is a redlock.Trace's BallotVote.
func (t *Trips) Vote(v redlock.BallotVote) {
	if v.Op != "ping" || v.Latency <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[int]time.Duration)
	}
	t.last[v.Index] = v.Latency
}

// of returns the last round trip of a master; 0 if it is not known.
func (t *Trips) of(index int) time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[index]
}
