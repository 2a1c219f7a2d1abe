//go:build !linux && !darwin

package redlock

import "time"

var processStart = time.Now()

// systemClock reads Go's monotonic clock. On Windows this is the interrupt
// time, which goes on during sleep.
func systemClock() time.Duration { return time.Since(processStart) }
