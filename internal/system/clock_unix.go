//go:build linux || darwin

package system

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the Clock of programs. It goes on while the machine is suspended.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(sleeplessClock, &ts); err != nil {
		// Every kernel that runs Go supports these clock ids; falling back to another
		// clock would silently mix two origins.
		panic("redlock: the system's clock cannot be read: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
