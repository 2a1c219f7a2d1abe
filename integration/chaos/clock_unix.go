//go:build linux || darwin

package chaos

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads a clock that all processes of this machine share and nobody can set:
// times in histories of different processes can be compared. It is the one on
// which the library measures validity, so it goes on where the machine sleeps.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(sleepless, &ts); err != nil {
		panic("chaos: the system's clock cannot be read: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
