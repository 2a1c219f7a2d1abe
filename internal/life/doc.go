// Package life is the life of a client: it begins with the first connections, and it ends
// with Close, which waits for the calls that are under way.
//
// # Life
//
// New begins a life. Enter waits until Settle ends the time of the first connections, and
// admits a call; the call ends with Leave. Close admits no more calls and waits for those
// under way and for waiters. End ends the context of the client's goroutines and waits for
// them. The client calls each at most once: End after Close, and Settle at any time, at the latest
// when the context has ended.
//
// # Goroutines
//
// Go starts a goroutine of the client; it must end with Context. The package has none of
// its own.
//
// # Locks
//
// Life.mu is innermost: nothing is locked under it.
package life
