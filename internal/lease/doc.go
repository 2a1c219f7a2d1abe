// Package lease keeps leases: a Lease is one holding of a lock, from its grant to its
// release or loss.
//
// # Life of a lease
//
// The lock that granted a lease makes it with New and starts it with Start, which puts it
// into the care of the client's Renewer. The Renewer renews it when a renewal is due, and
// ends it when its validity is over. A Lease ends for one Reason: its caller released it, the
// client was closed, or it was lost. From then on it stays ended, whatever the nodes say. (If
// the client closes under a Do, the lease ends as Closed, and for that Do's Handle as Released
// when the Do releases it.)
//
// Users have a Handle, not the Lease: when a Handle is garbage collected and its lease is
// still held, the Handle is released. From the first renewal on, only the user refers to
// the Handle.
//
// # Several handles
//
// A lease is granted to its first Handle. Others may join it (Handle.Join), without a call to the nodes. A
// Handle ends by itself when its caller releases it while others hold the lease: then its Done is
// closed and its functions of AtEnd are called, and the nodes do not learn of it. The release of the last
// Handle ends the lease, and every other end of the lease ends all its Handles. Of each Handle the lease
// keeps a part, which does not refer to the Handle. A lease that no Handle has joined keeps
// the only part within itself, and allocates nothing more.
//
// # The end of a lease
//
// endBy ends a lease, but for Close. If it is called for a Handle that is not the last one, it only ends that.
// The order of its steps is a contract:
//
//  1. under Lease.mu: record the End, close Done of all Handles, drop the first Handle, take the functions that
//     AtEnd registered;
//  2. under Lease.mu: begin the release, inform the Observer, queue the release. Queueing it
//     under the lock under which renewals are queued keeps every renewal ahead of it on
//     every connection;
//  3. under Lease.mu: let a Close that waits for this lease go on;
//  4. without the lock: log a loss, call the functions of AtEnd, leave the Renewer, and write
//     the release.
//
// Close splits that: Shut does the first step and calls the functions of AtEnd, for all leases;
// then GiveBack queues the releases, as fast as the nodes answer. The release of a lease under which Dos
// run is left to the last of them to return.
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
// # Signals
//
// A holder that wants to be told that others want the lock has a Signal. The nodes send it by the attempt's
// owner, so package lock makes it with the attempt; a renewal may tell it, too. It changes nothing of the lease.
//
// # Locks
//
// Lease.mu comes before Renewer.mu, Signal.mu, and before the locks of ballots, waiters, nodes and
// pipes. The Lock's BeginRenewal, BeginRelease and TakeBack, the Transfer, and the Observer but for its Endangered are
// called under Lease.mu. They get values, and do not call the lease.
package lease
