//go:build !linux && !darwin

package chaos

import "time"

// Now reads the wall clock, since processes share no other one here: if it is set during a
// run, the verdicts are false.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
