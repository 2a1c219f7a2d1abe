// Package limiter bounds how many attempts of a client are under way at the nodes. The other
// attempts wait in the process for their turn.
//
// Without a bound, a burst of calls fills the nodes' queues with more work than a node timeout
// holds. Then each answer comes too late, each attempt is rolled back and made again, and no call
// gets its lock, though every lock is free.
//
// # Life
//
// A caller calls Enter, makes its attempt, and calls Leave. The Limiter learns from the attempts
// how many at a time come back in time, and adapts its limit to that.
//
// A waiter that a node has woken, or that the nodes take for dead if it does not ask, is urgent. Urgent callers do not wait
// for the others: both kinds have the same limit, each for itself.
//
// When an attempt finds the nodes stalled, callers whose wait has no bound pause for a while, also those whose turn has come
// and who have not begun.
//
// # Goroutines and locks
//
// A Limiter has no goroutine. Its one lock is innermost, but for a timer of the runtime.
package limiter
