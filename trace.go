package redlock

import "time"

// Trace has hooks in the manner of httptrace.ClientTrace: those that are set are
// called. They are called from the goroutines that do the work, so they must
// return soon and must not call the lease's methods that touch the nodes.
type Trace struct {
	// LeaseDanger is called when a renewal of a lease was inconclusive: unless a
	// later one succeeds, the lease is lost when Remaining has passed.
	LeaseDanger func(LeaseDanger)
}

// LeaseDanger is a lease whose renewals fail.
type LeaseDanger struct {
	Name      string        // the lock's
	Owner     string        // the lease's
	Remaining time.Duration // how long the lease is valid yet
	Err       error         // why the renewal failed: a *QuorumError
}
