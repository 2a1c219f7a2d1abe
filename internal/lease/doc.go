// Package lease keeps leases: a Lease is one holding of a lock, from its grant to its
// release or loss.
//
// # Life of a lease
//
// The lock that granted a lease makes it with New and starts it with Start, which puts it
// into the care of the client's Renewer. The Renewer renews it when a renewal is due, and
// ends it when its validity is over. A Lease ends for one Reason: its caller released it, the
// client was closed, or it was lost. From then on it stays ended, whatever the nodes say. (If
// the client closes under a Do, the lease ends as Closed, and the Do's release replaces the
// reason by its own.)
//
// Users have a Handle, not the Lease: when a Handle is garbage collected and its lease is
// still held, the lease is released. From the first renewal on, only the user refers to
// the Handle.
//
// # The end of a lease
//
// endBy ends a lease, but for Close. The order of its steps is a contract:
//
//  1. under Lease.mu: record the End, close Done, drop the Handle, take the functions that
//     AtEnd registered;
//  2. under Lease.mu: begin the release, inform the Observer, queue the release. Queueing it
//     under the lock under which renewals are queued keeps every renewal ahead of it on
//     every connection;
//  3. under Lease.mu: let a Close that waits for this lease go on;
//  4. without the lock: log a loss, call the functions of AtEnd, leave the Renewer, and write
//     the release.
//
// Close splits that: Shut does the first step and calls the functions of AtEnd, for all leases;
// then GiveBack queues the releases, as fast as the nodes answer.
//
// # Renewals
//
// A renewal's verdict counts only before the validity without it is over. Answers may
// come after the verdict: until then, they can still show that a quorum had lost the
// lease, which ends it at once (quorum.Question.LateUntil).
//
// # Goroutines
//
// Renewer.Run is the only goroutine, whatever the number of leases; the client starts it and
// ends its context. Verdicts of scheduled renewals arrive in the goroutines of the
// connections' readers.
//
// # Locks
//
// Lease.mu comes before Renewer.mu, and before the locks of ballots, waiters, nodes and
// pipes. The Observer is called under Lease.mu, but for Endangered.
package lease
