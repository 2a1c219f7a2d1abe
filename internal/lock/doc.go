// Package lock acquires and releases locks: it puts attempts, tokens, leases and the wait queue
// together, for any kind of lock.
//
// A Lock is a name with its Terms. What kind of lock it is, that is which commands and scripts
// it sends and what their replies mean, comes from its Primitive. Exclusive is the Primitive of
// a mutex, and of the writers of a lock for readers and writers; Shared is that of its readers.
// Both embed keyed, a lock of one key. All locks of a client share an Engine.
//
// # Life of an acquisition
//
//	attempt     one ballot over all nodes that may vote
//	token       the greatest count of the quorum; nodes that disagree are raised first
//	lease       package lease keeps it from then on
//
// or, if the attempt was refused:
//
//	rollback    behind the attempt on the same connections, at all nodes that may have executed it
//	refusal     the holder, or why there is no quorum
//	wait        package waitqueue says when to try again; a caller that does not wait gets the Refusal
//
// A free lock needs no wait queue: the Engine makes it when a quorum has refused a caller of
// Acquire for the first time.
//
// # Goroutines
//
// The package starts none. Answers arrive in the goroutines of the connections' readers.
//
// # Locks
//
// handover.mu is innermost. The order of the others is that of the packages: leases, the wait
// queue, waiters, ballots, nodes, pipes.
package lock
