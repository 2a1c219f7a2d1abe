// Package waitqueue is a client's part in the wait queues of all locks: its waiters, how
// nodes wake them, and when they look at the lock without a wake-up.
//
// A caller of Lock becomes a Waiter when it is refused; where the client listens already, before its first
// attempt. A waiter joins the wait queue for its lock at every node that refuses it. The nodes' scripts keep the
// order. They hand a lock that is released over to the first waiter: they reserve the lock and send the waiter's
// client a wake-up. docs/algorithm.md (Waiting, Dead clients) describes the whole, and
// internal/protocol/parts/queue.lua has the rules.
//
// # Life of a waiter
//
// NewWaiter makes it, with the ticket that gives it its position in all queues. Park prepares
// an attempt; the caller sends it between Begin and Sent. AwaitTurn returns when it is time for the next one,
// and Granted reports whether a quorum has executed the last attempt meanwhile. The waiter ends with LeaveQueues
// and Leave. If it got the lease (GotLease), nodes that granted it have removed its ticket; at others the ticket stays
// until the lease's release, and Retire gives it up.
//
// A waiter says when to ask, and which of its attempts are stale (Stale). It sends no ballots: package lock
// sends attempts and rollbacks. It only queues undos at single nodes, where it learns of them first.
//
// # Looks
//
// Nodes take a client for dead that is not subscribed any more, or does not answer a challenge (wakeup.go). All of
// its waiters live and die together. So for each lock one of them, the foremost, looks for the others (group.go):
// it asks though no node has woken it, in case a holder or the clients ahead have died (turn.go).
//
// # Parked attempts
//
// A waiter's attempt that is refused stays at the node for a moment, parked: if the holder
// releases the lock meanwhile, the release executes the parked attempt of the first waiter,
// and the node sends the waiter the token. That saves a round trip (parked.go).
//
// # Holders
//
// The channel of wake-ups also brings messages to holders that want to be told that others want their locks
// (wanted.go). They are about owners, and not about waiters: such a holder need not have waited.
//
// # Goroutines
//
// The first call of Listen starts one goroutine per node, which receives wake-ups; they end
// with the client's life. Waiters have none: they wait in their callers' goroutines.
//
// # Locks
//
// Queue.mu comes before Waiter.mu; the locks of a turn and of Holders are innermost. A lease's lock comes before both;
// ballots', nodes' and pipes' locks come after both.
package waitqueue
