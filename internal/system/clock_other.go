//go:build !linux && !darwin

package system

import "time"

var processStart = time.Now()

// Now is the Clock of programs. It reads Go's monotonic clock; on Windows that is the
// interrupt time, which goes on during sleep.
func Now() time.Duration { return time.Since(processStart) }
