package pipe

import (
	"errors"
	"fmt"
	"time"
)

// ErrStalled is why a call was not queued: too many bytes are unanswered, or for too long.
var ErrStalled = errors.New("stalled")

// Unanswered returns how many calls wait for their answers.
func (p *Pipe) Unanswered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls.len()
}

// Silence returns how long, at the instant now, the oldest unanswered call has waited; 0 if
// there is none.
func (p *Pipe) Silence(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence(now)
}

// silence is Silence. Called under p.mu.
func (p *Pipe) silence(now time.Duration) time.Duration {
	if p.calls.len() == 0 {
		return 0
	}
	return now - p.calls.front().queued
}

// Limit bounds what may be unanswered when a call is queued.
type Limit struct {
	Silence  time.Duration // how long the oldest call may have waited
	Pause    time.Duration // while more than Bytes are unanswered: how long the server may not have answered
	Bytes    int
	MaxBytes int // how many bytes may be unanswered in any case
}

// check returns an error if the limit is exceeded. Called under p.mu.
func (p *Pipe) check(l *Limit, now time.Duration) error {
	s := p.silence(now)
	if s > l.Silence {
		return fmt.Errorf("%w: no answer for %v", ErrStalled, s.Round(time.Millisecond))
	}
	if p.answered != p.seen {
		p.seen, p.progress = p.answered, now
	}
	// Up to MaxBytes, a server that keeps answering is busy, not stalled.
	if p.bytes > l.MaxBytes || p.bytes > l.Bytes && min(s, now-p.progress) > l.Pause {
		return fmt.Errorf("%w: %d KiB unanswered", ErrStalled, p.bytes>>10)
	}
	return nil
}

// size returns about how many bytes a call takes on the wire.
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

// Answered returns how many calls have been answered. While this number grows, the server
// makes progress.
func (p *Pipe) Answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}
