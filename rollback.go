package redlock

// rollback undoes an attempt at every node that did or may yet execute it. A
// waiter keeps its place in the lines.
func (b *ballot) rollback() {
	if b.undoing != nil {
		return
	}
	if b.waiter != nil {
		b.undoing = b.waiter.yield(b.owner, b.unsettled())
		return
	}
	b.undoing = b.mutex.undo(b.owner, b.sent())
}

// undo drops what an attempt left at the nodes, behind it on the same
// connections, and does not wait. Nodes that cannot be reached owe it.
func (m *Mutex) undo(owner string, at nodeSet) *ballot {
	b := m.newBallot(releasing, owner, releaseScript.bySHA(m.keyArg, owner), m.opts.clock())
	b.send(at, false)
	return b
}
