package redlock

import (
	"sync/atomic"
	"time"
)

// peers is what the nodes of a client know of each other.
type peers struct {
	registry
	all     []*node // filled before the first of them runs
	nodes   int     // N
	quorum  int
	longest atomic.Int64 // the longest ttl seen on record, or used by this client; nanoseconds
}

// learn notes a ttl that is on record.
func (p *peers) learn(ttl time.Duration) {
	for {
		old := p.longest.Load()
		if int64(ttl) <= old || p.longest.CompareAndSwap(old, int64(ttl)) {
			return
		}
	}
}

// wanted is the longest ttl that this client uses.
func (n *node) wanted() time.Duration { return time.Duration(n.ttl.Load()) }

// want notes that a ttl is to be used; what is longer than what is on record
// must be put there first.
func (n *node) want(ttl time.Duration) {
	for {
		old := n.ttl.Load()
		if int64(ttl) <= old {
			break
		}
		if n.ttl.CompareAndSwap(old, int64(ttl)) {
			break
		}
	}
	n.nudge()
}

// nudge makes the node look at its admission again.
func (n *node) nudge() {
	select {
	case n.doubt <- struct{}{}:
	default:
	}
}

// guard is how long a node that lost its memory must not vote.
func (n *node) guard() time.Duration {
	return max(n.opts.guard, n.wanted(), time.Duration(n.peers.longest.Load()))
}

// mayVote tells whether the node votes for a new lease of this ttl, and why not.
func (n *node) mayVote(ttl time.Duration) (*standing, error) {
	st := n.standing.Load()
	switch {
	case st == nil:
		return nil, n.why()
	case st.until > 0:
		return nil, &barredError{max(st.until-n.opts.clock(), 0)}
	case !st.votes:
		return nil, st.why
	case st.longest < ttl:
		n.want(ttl)
		return nil, errRegistering
	}
	return st, nil
}
