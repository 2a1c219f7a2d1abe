// Package admission decides which masters may vote.
//
// A master that lost its memory, or the last second of it, could vote twice and count
// tokens backwards. So a node votes for new leases only while it carries a record that
// names this run of its server. The first client that finds no record puts the node into
// quarantine for one guard, which is as long as any lease that the node may have forgotten
// can last, and then refills its counters from the other nodes. docs/safety.md has the
// proof.
//
// A Group is what the nodes of a client share; a Member is one node with its right to
// vote. The member's checks run in the goroutine of its node (node.Node.Run), which calls
// them through the interface node.Admitter; the package has no goroutines of its own.
//
// The lock of progress is innermost: nothing is locked under it. Under Group.standing the locks of package node may be taken.
package admission
