// Package operate puts operators' questions to all nodes: what stands there for one name, and for all
// names that are locked; and whether a holder will let its lock go. It makes no ballots and changes no lock:
// ForceUnlock does, in package lock.
//
// # One name
//
// Nodes asks all nodes at once, and waits for the answers no longer than its timeout.
//
// # All names
//
// A Listing goes through the names that are locked or waited for: page by page, with bounded memory, and
// at a pace that leaves the servers to those that lock.
//
// What a quorum of n nodes has, one at least of any n-q+1 nodes has. So a listing goes through
// the keys of n-q+1 nodes, one node after the other, by SCAN: those of locks, those of their wait queues, since a
// lock that is waited for may be free, and those of the wait queues of semaphores. It asks all nodes for each page of
// names what stands there, and shows the answers to its caller, which judges them.
//
// Servers return their keys in orders of their own, so no merge of the listings is bounded.
// Instead a memory of bounded size has the names that the caller has shown: those are
// neither asked for nor shown again. When the memory is full, a name that a node has of which the
// listing has gone through all keys is not shown again either: it was shown there, unless its
// key came there later.
//
// Look asks about given names in the same batches and at the same pace.
//
// Run is one listing, from its first question to its last. At any instant at most one page of
// names, and the questions about one batch of them, are under way. A node that has not answered
// the questions about one batch is not asked about the next one.
//
// # Goroutines and locks
//
// The package has none. Run waits for the answers in its caller's goroutine, and is a call of the
// client's life only while it does: its caller may close the client in between.
package operate
