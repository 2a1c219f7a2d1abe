// Package limiter decides when a call of a client may ask the nodes. It bounds how many attempts are under way, and
// paces those that too few nodes answer. The other calls wait in the process for their turn.
//
// Without a bound, a burst of calls fills the nodes' queues with more work than a node timeout
// holds. Then each answer comes too late, each attempt is rolled back and made again, and no call
// gets its lock, though every lock is free.
//
// # Life
//
// A caller calls Enter, makes its attempt, and calls Leave. If too few nodes answered, it calls Rest before it asks
// again. The Limiter learns from the attempts how many at a time come back in time, and adapts its limit to that.
//
// A waiter that a node has woken, or that the nodes take for dead if it does not ask, is urgent. Urgent callers do not wait
// for the others: both kinds have the same limit, each for itself.
//
// While too few nodes answer, few callers ask, and rest between their attempts. Those whose wait has a bound ask at once.
// While no majority can vote until a person acts, one caller asks in each FailurePause.
//
// # Goroutines and locks
//
// A Limiter has no goroutine. Its one lock is innermost, but for a timer of the runtime.
package limiter
