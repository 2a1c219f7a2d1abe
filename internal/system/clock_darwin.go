package system

import "golang.org/x/sys/unix"

// On macOS CLOCK_MONOTONIC goes on during sleep; CLOCK_UPTIME_RAW, which Go
// reads, does not.
const sleeplessClock = unix.CLOCK_MONOTONIC
