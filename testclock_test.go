package redlock

import (
	"sync"
	"time"
)

// testClock is virtual time, and what the machine has slept beside it.
type testClock struct {
	mu     sync.Mutex
	origin time.Time
	slept  time.Duration
}

func (c *testClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.origin) + c.slept
}

func (c *testClock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
}

// elapsed measures virtual time.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
