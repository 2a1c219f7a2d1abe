package lease

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// Release sends each node a PING behind every drainBatch releases, and sends no more
	// releases while a node has maxPings unanswered PINGs. So some two thousand releases
	// are under way at a node: a few times as many as its connection carries at once,
	// and far fewer than would overload it.
	drainBatch = 256
	maxPings   = 8
)

// A Drain waits until the nodes have executed the releases that Close queues for them.
// It sends each node a PING now and then, which the node answers after everything that
// was queued before, and counts the unanswered PINGs. A node whose connection breaks
// gets its PING again on the next one, behind the releases that the node has not confirmed.
//
// A Drain waits for a node for as long as the node answers anything at all. It gives up
// a node that is silent for a node timeout, for the rest of Close: so a frozen node
// costs a node timeout once, however many leases there are. It does not wait for a node
// that is not connected when a PING is due.
type Drain struct {
	clock   system.Clock
	timeout time.Duration // a node's
	nodes   []drainNode
	wake    chan struct{} // a PING was answered, or its connection broke
	until   time.Duration // when all keys have ended at the latest, so that nothing is left to release
}

// drainNode is one node as a Drain sees it.
type drainNode struct {
	*admission.Member
	drain *Drain

	unanswered atomic.Int64 // PINGs
	broken     atomic.Bool  // the connection of the last PING broke before the answer

	pipe     *pipe.Pipe    // the connection that answered and since are about
	answered uint64        // how many calls it has answered
	since    time.Duration // when its silence began: its last answer, or the first unanswered PING
	givenUp  bool
}

// NewDrain returns a Drain for a client whose keys last for ttl, at most.
func NewDrain(nodes []*admission.Member, clock system.Clock, nodeTimeout, ttl time.Duration) *Drain {
	d := &Drain{clock: clock, timeout: nodeTimeout, nodes: make([]drainNode, len(nodes)), wake: make(chan struct{}, 1), until: clock() + ttl}
	for i, n := range nodes {
		d.nodes[i].Member, d.nodes[i].drain = n, d
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

// ping sends a PING to each node that is connected and not given up.
func (d *Drain) ping() {
	for i := range d.nodes {
		n := &d.nodes[i]
		if p := n.Member.Pipe(); p != nil && !n.givenUp {
			n.ping(p, d.clock())
		}
	}
}

// await returns when no node that is not given up has more than most PINGs unanswered.
func (d *Drain) await(most int64) {
	every := d.timeout / 4
	look := time.NewTimer(every)
	defer look.Stop()
	looked := d.clock()
	for {
		now, behind := d.clock(), false
		// After a pause of this very process the answers are still in the socket: they
		// must be read before a node is taken for silent.
		paused := now-looked > 2*every
		looked = now
		for i := range d.nodes {
			behind = d.nodes[i].isBehind(most, now, paused) || behind
		}
		if !behind || now >= d.until {
			return
		}
		look.Reset(every)
		select {
		case <-d.wake:
		case <-look.C:
		}
	}
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
		d.ping()
		d.await(maxPings - 1)
	}
}

// Finish returns when the nodes have executed everything that was queued for them, and
// the releases that were sent once more because a node had refused them.
func (d *Drain) Finish() {
	for {
		d.ping()
		d.await(0)
		if !d.awaitsUndo() || d.clock() >= d.until {
			return
		}
		// A connection may have broken that its node's goroutine has not noticed yet.
		time.Sleep(undoPause)
	}
}

// undoPause is how long a Drain waits before it asks awaitsUndo again.
const undoPause = time.Millisecond

// awaitsUndo reports whether a connected node that is not given up has yet to answer
// a release that was sent once more.
func (d *Drain) awaitsUndo() bool {
	for i := range d.nodes {
		n := &d.nodes[i]
		if !n.givenUp && n.Member.Pipe() != nil && n.AwaitsUndo() {
			return true
		}
	}
	return false
}

// ping sends the node a PING over p, behind everything that is queued there. If p has
// broken, the node gets its PING on the next connection; until then it is silent.
func (n *drainNode) ping(p *pipe.Pipe, now time.Duration) {
	first := n.unanswered.Add(1) == 1
	flush, _, err := p.Queue(&pipe.Call{Command: "PING", To: n}, now, nil)
	if err != nil { // it broke just now
		n.unanswered.Add(-1)
		n.broken.Store(true)
		return
	}
	if first {
		n.since = now
	}
	if flush {
		p.Flush()
	}
}

// Receive takes the answer to a PING.
func (n *drainNode) Receive(_ any, err error) {
	var reply redis.Error
	n.broken.Store(err != nil && !errors.As(err, &reply))
	n.unanswered.Add(-1)
	select {
	case n.drain.wake <- struct{}{}:
	default: // await is woken already, and will see this answer
	}
}

// isBehind reports whether the drain must wait for the node: more than most of its PINGs
// are unanswered, and it has not been silent for a node timeout. paused means that this
// process may not have read the node's answers.
func (n *drainNode) isBehind(most int64, now time.Duration, paused bool) bool {
	if n.givenUp {
		return false
	}
	p, answered := n.Member.Pipe(), uint64(0)
	if p != nil {
		answered = p.Answered()
		if n.broken.Swap(false) {
			n.ping(p, now)
		}
	}
	behind := n.unanswered.Load() > most || n.broken.Load()
	if paused || !behind || p != n.pipe || answered != n.answered {
		n.pipe, n.answered, n.since = p, answered, now
	}
	n.givenUp = now-n.since >= n.drain.timeout
	return behind && !n.givenUp
}
