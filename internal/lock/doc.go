// Package lock acquires and releases locks: it puts attempts, tokens, leases and the wait queue
// together, for any kind of lock.
//
// A Lock is a name with its Terms. What kind of lock it is, that is which commands and scripts
// it sends and what their replies mean, comes from its kind (kinds.go, permits.go):
//
//	Exclusive   a mutex, and the writers of a lock for readers and writers
//	Shared      its readers
//	Several     several names, held all at once
//	Permits     permits of a semaphore, each a lock of its own
//
// All locks of a client share an Engine.
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
// Acquire for the first time, or before the first lock whose holders are told that others want it.
//
// # Transfer
//
// A Transfer is the ballot by which a lease of an Exclusive ends here while its keys stay at the nodes. Resume
// gives the keys to a new owner, in any process, and makes a lease of it. docs/safety.md (Transfer) has the argument.
//
// # Goroutines
//
// The package starts none. Answers arrive in the goroutines of the connections' readers.
//
// # Locks
//
// handoff.mu and choice.mu are innermost. Transfer.mu comes after the leases' locks and
// ahead of the nodes', as Settle holds it; needs.mu comes ahead of the nodes' locks. The order of the
// others is that of the packages: leases, the wait queue, waiters, ballots, nodes, pipes.
package lock
