package testnet

import (
	"sync"
	"time"
)

// Clock is virtual time, and what the machine has slept beside it.
type Clock struct {
	Mu     sync.Mutex
	Origin time.Time
	slept  time.Duration
}

func (c *Clock) Now() time.Duration {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return time.Since(c.Origin) + c.slept
}

func (c *Clock) Sleep(d time.Duration) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.slept += d
}

// Elapsed measures virtual time.
func Elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

const ms = time.Millisecond
