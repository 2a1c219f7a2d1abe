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
	b.undoing = b.mutex.undo(b.owner, b.sent(), b.trace, b.jumped())
}

// undo drops what an attempt left at the nodes, behind it on the same
// connections, and does not wait. Nodes that cannot be reached owe it. of is the
// attempt's trace, if it has one; found tells that it was granted what was free for
// others: then somebody was called before who did not come.
func (m *Mutex) undo(owner string, at nodeSet, of *ballotTrace, found bool) *ballot {
	args := releaseScript.bySHA(m.keyArg, owner)
	if found {
		args = append(args, "")
	}
	b := m.newBallot(releasing, owner, args, m.opts.clock())
	b.follows(of)
	b.send(at, false)
	return b
}
