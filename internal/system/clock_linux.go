package system

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// On Linux CLOCK_MONOTONIC stops during suspension, CLOCK_BOOTTIME does not.
const sleeplessClock = unix.CLOCK_BOOTTIME

// Now is the Clock of programs. It goes on while the machine is suspended.
func Now() time.Duration { return sleepless.now() }

var sleepless = newBootClock(time.Now(), time.Since, time.Now, readSleepless)

const (
	// maxTrust bounds for how long the boot clock is not read while its distance from Go's clock is known.
	maxTrust = 100 * time.Millisecond

	// maxStep is the shortest suspension that is noticed at once. A shorter one is noticed within maxTrust.
	maxStep = 100 * time.Microsecond

	// maxReading is how long a reading of all clocks may take to count.
	maxReading = 20 * time.Microsecond
)

// bootClock shows what the boot clock shows. Reading that is a system call; the program itself reads Go's clock and the
// wall clock, at a fifth of the cost. The boot clock's distance from Go's clock grows by suspensions alone, and a
// suspension moves the wall clock away from Go's clock too. So while these two have not moved, the distance
// is what it was. docs/safety.md (The client's clock) has the argument.
type bootClock struct {
	start time.Time
	since func(time.Time) time.Duration // Go's clock, which stops during suspension
	wall  func() time.Time
	boot  func() time.Duration
	known atomic.Pointer[distances] // nil: nothing is known
}

// distances is how far two clocks are ahead of Go's.
type distances struct {
	read       time.Duration // when, on Go's clock
	wall, boot time.Duration
}

// newBootClock makes a clock. Unless start has a reading of Go's clock, it always reads the boot clock.
func newBootClock(start time.Time, since func(time.Time) time.Duration, wall func() time.Time, boot func() time.Duration) *bootClock {
	return &bootClock{start: start, since: since, wall: wall, boot: boot}
}

func (c *bootClock) now() time.Duration {
	at := c.since(c.start)
	wall := c.wallAhead(at) // after Go's clock: a suspension between the two shows
	if d := c.known.Load(); d != nil && at-d.read < maxTrust && (wall-d.wall).Abs() < maxStep {
		return at + d.boot
	}
	return c.read()
}

// wallAhead returns how far the wall clock is ahead of an instant of Go's clock.
func (c *bootClock) wallAhead(at time.Duration) time.Duration {
	return time.Duration(c.wall().UnixNano()) - at
}

// read reads the boot clock, and finds the distances anew. Like the boot clock, it never goes back.
func (c *bootClock) read() time.Duration {
	last := c.known.Load()
	before := c.since(c.start)
	boot := c.boot()
	after := c.since(c.start)
	d := &distances{read: after, wall: c.wallAhead(after), boot: boot - before}
	switch {
	case c.start == c.start.Round(0):
		return boot
	case c.since(c.start)-before > maxReading: // the goroutine was interrupted
		if last == nil {
			return boot
		}
		return max(boot, after+last.boot)
	case last != nil && d.boot-last.boot <= 2*maxReading:
		d.boot = last.boot // there was no suspension
	}
	if !c.known.CompareAndSwap(last, d) {
		return c.now()
	}
	return after + d.boot
}
