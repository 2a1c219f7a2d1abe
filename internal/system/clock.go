package system

import "time"

// Clock returns the time since some fixed instant, on a clock that cannot be set and, if
// the system has such a clock, does not stop while the machine is suspended. Every validity
// is computed on it: the wall clock may jump, and Go's monotonic clock stops on a sleeping
// laptop or a paused virtual machine, while the keys at the nodes go on expiring.
type Clock func() time.Duration

// Wall returns what the wall clock shows; programs read time.Now. People set it, and it jumps: it is in
// owners, to show people since when a lock is held, and no validity depends on it. Where counters begin, it is one of
// the clocks that a client asks.
type Wall func() time.Time

// Forever is a duration that does not end.
const Forever = time.Duration(1<<63 - 1)
