// Package node is a client's connection to one Redis master: a Node keeps it up, queues
// calls on it, and knows what the master has not confirmed.
//
// # Life
//
// New makes a Node. Its owner starts one goroutine, Run, which dials, shakes hands, asks
// the Admitter whether the master may vote, and dials again when the connection breaks.
// Run ends with its context. While a connection stands, Run has a second goroutine that
// watches for answers that are overdue; Run ends it. Each dial runs in a goroutine of
// its own, which ends when the pool's dial does. Listen is a second connection, for wake-ups, with a
// goroutine that sends pings; its owner starts it, and it ends with its context too.
//
// # Undos
//
// A release or a rollback that a master has not confirmed is an Undo. The Node sends it
// again, first thing on the next connection, until the master has confirmed it. So an
// attempt that a frozen master executes long after its ttl is undone as well.
//
// # Locks
//
// Node.mu comes before the locks of pipes. Ballots' locks come before it. The locks of
// Identities and of a clock's offset are innermost: nothing is locked under them.
package node
