// Package node is a client's connection to one Redis master: a Node keeps it up, queues
// calls on it, and knows what the master has not confirmed.
//
// # Parts
//
//   - link: the connection, or why there is none, and the lock of what a new connection
//     must take over
//   - connector: Run's loop, which makes the connections; handshake, session: the
//     beginning of one, and the rest of it
//   - undoLog: what the master has not confirmed
//   - oldConnections: connections that were given up and that the master must close
//   - scriptLoader: loads the scripts again when the master has forgotten them
//   - subscription: the second connection, for wake-ups; offset: the master's clock
//   - Standing: what a node reports of itself; Status: what the log and the observer know of it
//   - Majority: whether so many nodes vote that locks go on, and what the log says of that
//   - look: the call that asks whether the node does what a lock needs
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
// A link's mu protects the link, the undos and the old connections. It comes before the
// locks of pipes. Ballots' locks come before it. The Majority's mu protects each Status too. The
// locks of Identities, of Majority and of a clock's offset are innermost: nothing is locked under
// them.
package node
