package pipe

import (
	"errors"
	"fmt"
	"time"
)

// ErrStalled is why a call was not queued: too much is unanswered.
var ErrStalled = errors.New("stalled")

// Unanswered is how many calls are waiting for their answers.
func (p *Pipe) Unanswered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls.len()
}

// Silence is how long, at the instant now, the oldest unanswered call has been
// waiting; 0 without one.
func (p *Pipe) Silence(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence(now)
}

// silence does it under p.mu.
func (p *Pipe) silence(now time.Duration) time.Duration {
	if p.calls.len() == 0 {
		return 0
	}
	return now - p.calls.front().queued
}

// Limit says when a call is not worth queuing.
type Limit struct {
	Silence time.Duration // the oldest call has been waiting for longer
	Pause   time.Duration // the same, where more than Bytes are unanswered
	Bytes   int
	Most    int // more bytes than this are unanswered
}

// over tells which limit is passed. Called under p.mu.
func (p *Pipe) over(l *Limit, now time.Duration) error {
	s := p.silence(now)
	if s > l.Silence {
		return fmt.Errorf("%w: no answer for %v", ErrStalled, s.Round(time.Millisecond))
	}
	// Bytes alone do not make a server stalled: one that answers is merely busy.
	if p.bytes > l.Most || p.bytes > l.Bytes && s > l.Pause {
		return fmt.Errorf("%w: %d KiB unanswered", ErrStalled, p.bytes>>10)
	}
	return nil
}

// size is what a call takes on the wire, about.
func size(c *Call) int {
	n := len(c.Command) + 16
	for _, a := range c.Args {
		switch a := a.(type) {
		case string:
			n += len(a) + 8
		case []byte:
			n += len(a) + 8
		default:
			n += 16
		}
	}
	return n
}

// Answered returns how many calls have been answered. A server makes progress while it
// grows.
func (p *Pipe) Answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}
