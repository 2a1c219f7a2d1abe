package redlock

import "time"

// Trace has hooks in the manner of httptrace.ClientTrace: those that are set are
// called, one after the other and in order, from one goroutine of the Client's
// that does nothing else. A slow hook delays later ones and Close, but no lease;
// where news comes faster than it is heard, some is dropped and the log says so.
// Hooks must not call Close, which waits for them.
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
