//go:build linux || darwin

package chaos

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads a clock that all processes of this machine share and that cannot be set: so
// times of different processes can be compared. The library measures validity on the same
// clock, so it goes on while the machine sleeps.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(sleepless, &ts); err != nil {
		panic("chaos: the system's clock cannot be read: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
