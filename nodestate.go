package redlock

import (
	"errors"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"
)

// condition is what a node's goroutine has told of it last.
type condition int

const (
	unseen condition = iota
	down
	misfit // down until a person acts
	quarantined
	up
)

// down is logged from the second failure in a row on, and not more often than this:
// neither a connection that is made anew at once nor a node that comes and goes fills
// the log.
const (
	worthALine = 2
	nextLine   = 30 * time.Second
)

// turns tells whether the node's condition is another one now.
func (n *node) turns(to condition) bool {
	before := n.condition
	n.condition = to
	return to != before
}

// isUp notes that the node votes.
func (n *node) isUp() {
	n.failures = 0
	n.stalled.Store(false)
	if n.worried {
		n.worried = false
		n.opts.herald.log(slog.LevelInfo, "a node is up: it votes", "node", n.name)
	}
	if t := n.opts.tracer; n.turns(up) && t != nil {
		report(t.herald, t.NodeUp, true, NodeUp{Time: time.Now(), Index: n.index, Node: n.name})
	}
}

// isDown notes that the node cannot be used; it comes with every attempt to.
func (n *node) isDown(err error) {
	err = advise(err)
	var known *misfitError
	now := n.opts.clock()
	n.failures++
	switch {
	case errors.As(err, &known):
		n.worried = true // that was logged
	case !n.worried && n.failures >= worthALine && (n.warned == 0 || now-n.warned >= nextLine):
		n.worried, n.warned = true, now
		n.opts.herald.log(slog.LevelWarn, "a node is down; locks go on while a majority votes", "node", n.name, "error", err)
	}
	to := down
	if permanent(err) {
		to = misfit
	}
	if t := n.opts.tracer; n.turns(to) && t != nil {
		report(t.herald, t.NodeDown, true, NodeDown{Time: time.Now(), Index: n.index, Node: n.name,
			Misfit: to == misfit, Err: err})
	}
}

// stands notes what its admission has come to.
func (n *node) stands(st *standing) {
	switch {
	case st.votes:
		n.isUp()
		return
	case permanent(st.why):
		n.isDown(st.why)
		return
	}
	if t := n.opts.tracer; n.turns(quarantined) && t != nil {
		e := NodeQuarantined{Time: time.Now(), Index: n.index, Node: n.name, Err: st.why}
		if st.until > 0 {
			e.Wait = st.until - n.opts.clock()
		}
		report(t.herald, t.NodeQuarantined, true, e)
	}
}

// passedBy notes that a ballot did not wait for the node, whose answers are overdue.
func (n *node) passedBy() {
	t := n.opts.tracer
	if t == nil || t.NodeStalled == nil || !n.stalled.CompareAndSwap(false, true) {
		return
	}
	e := NodeStalled{Time: time.Now(), Index: n.index, Node: n.name}
	if p := n.pipe.Load(); p != nil {
		e.Silence = p.Silence(n.opts.clock())
	}
	report(t.herald, t.NodeStalled, true, e)
}

// answered notes that a call had an answer: err is nil, or the server's.
func (n *node) answered(err error) {
	if !n.stalled.Load() {
		return
	}
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		n.stalled.Store(false)
	}
}
