package system

import "golang.org/x/sys/unix"

// On Linux CLOCK_MONOTONIC stops during suspension, CLOCK_BOOTTIME does not.
const sleeplessClock = unix.CLOCK_BOOTTIME
