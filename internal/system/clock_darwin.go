package system

import (
	"time"

	"golang.org/x/sys/unix"
)

// On macOS CLOCK_MONOTONIC goes on during sleep; CLOCK_UPTIME_RAW, which Go
// reads, does not.
const sleeplessClock = unix.CLOCK_MONOTONIC

// Now is the Clock of programs. It goes on while the machine is suspended.
func Now() time.Duration { return readSleepless() }
