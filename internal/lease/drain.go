package lease

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// Release sends drainBatch releases, and then waits until each node owes fewer than maxOwed answers: a few times
	// as many as a connection carries at once, and far fewer than would overload the node.
	drainBatch = 256
	maxOwed    = 2048

	// drainLook is how long a Drain waits before it looks again at what the nodes owe.
	drainLook = time.Millisecond / 2
)

// A Drain waits until the nodes have executed the releases that Close queues for them: until they owe no answer, and no
// release that was sent once more.
//
// A Drain waits for a node for as long as the node answers anything at all. It gives up a node that is silent for a
// node timeout, for the rest of Close: so a frozen node costs a node timeout once, however many leases there are. A node
// whose connection breaks has as long to come back. A Drain does not wait for a node that was not connected before.
type Drain struct {
	clock   system.Clock
	timeout time.Duration // a node's
	nodes   []drainNode
	until   time.Duration // when all keys have ended at the latest, so that nothing is left to release
	looked  time.Duration // when it has looked at the nodes last
}

// drainNode is one node as a Drain sees it.
type drainNode struct {
	*admission.Member

	pipe     *pipe.Pipe    // the node's connection; the last one while there is none
	answered uint64        // how many calls it has answered
	since    time.Duration // when its silence began: its last answer, or when it began to owe one
	givenUp  bool
}

// NewDrain returns a Drain for a client whose keys last for ttl, at most.
func NewDrain(nodes []*admission.Member, clock system.Clock, nodeTimeout, ttl time.Duration) *Drain {
	now := clock()
	d := &Drain{clock: clock, timeout: nodeTimeout, nodes: make([]drainNode, len(nodes)), until: now + ttl, looked: now}
	for i, n := range nodes {
		d.nodes[i] = drainNode{Member: n, pipe: n.Pipe(), since: now}
	}
	return d
}

// awaited returns the nodes that are not given up.
func (d *Drain) awaited() (set quorum.NodeSet) {
	for i := range d.nodes {
		if !d.nodes[i].givenUp {
			set.Add(i)
		}
	}
	return set
}

// await returns when it has seen, looks times in a row, that no node owes many answers. Nodes that are given up do not
// count.
func (d *Drain) await(many, looks int) {
	for quiet := 0; d.looked < d.until; time.Sleep(drainLook) {
		if d.isBehind(many) {
			quiet = 0
		} else if quiet++; quiet == looks {
			return
		}
	}
}

// isBehind reports whether a node owes many answers, and gives silent nodes up. After a pause of this very process the
// answers are still in the socket: they must be read before a node is taken for silent.
func (d *Drain) isBehind(many int) (behind bool) {
	now := d.clock()
	paused := now-d.looked > max(d.timeout/2, 20*drainLook)
	d.looked = now
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.givenUp {
			continue
		}
		owes := n.owes(many, now)
		if paused || !owes {
			n.since = now
		}
		n.givenUp = now-n.since >= d.timeout
		behind = behind || owes && !n.givenUp
	}
	return behind
}

// owes reports whether the node owes many answers or, if many is 1, an undo. Its silence ends with each answer.
func (n *drainNode) owes(many int, now time.Duration) bool {
	p := n.Member.Pipe()
	switch {
	case p == nil:
		return n.pipe != nil // what the node owed is an undo now, and goes over the next connection
	case p.Err() != nil:
		return true // it becomes one now
	}
	if answered := p.Answered(); p != n.pipe || answered != n.answered {
		n.pipe, n.answered, n.since = p, answered, now
	}
	return p.Unanswered() >= many || many == 1 && n.AwaitsUndo()
}

// Release sends the releases of leases that Shut has ended. It sends them as fast as the
// nodes answer, so that neither the nodes nor this process hold all of them at once.
func (d *Drain) Release(leases []*Lease) {
	for batch := range slices.Chunk(leases, drainBatch) {
		at := d.awaited()
		var ballots []*quorum.Ballot
		for _, l := range batch {
			if b := l.GiveBack(at); b != nil {
				ballots = append(ballots, b)
			}
		}
		for _, b := range ballots {
			b.Flush(false)
		}
		d.await(maxOwed, 1)
	}
}

// Finish returns when the nodes have executed everything that was queued for them, and
// the releases that were sent once more because a node had refused them. It looks twice: a reader may have counted an
// answer whose receiver is about to make an undo of it.
func (d *Drain) Finish() { d.await(1, 2) }
