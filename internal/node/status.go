package node

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// condition is what the observer has been told of a node last.
type condition int

const (
	unseen condition = iota
	down
	unfit // down until a person acts
	quarantined
	up
)

// A node is logged as down from failuresBeforeLog failures in a row on, and not more often
// than every downLogInterval: neither a connection that is made anew at once nor a node
// that comes and goes fills the log.
const (
	failuresBeforeLog = 2
	downLogInterval   = 30 * time.Second
)

// status is what the log and the observer know of a node. Run's goroutine alone uses it.
type status struct {
	condition condition
	failures  int           // in a row
	downLog   bool          // the log has it that the node does not vote
	downAt    time.Duration // when the log was told last that it is down
	problems  []string      // of the last handshake, which were logged
}

// turn sets the condition, and reports whether it is another one now.
func (s *status) turn(to condition) (changed bool) {
	changed = s.condition != to
	s.condition = to
	return changed
}

// ExpectUpLine records whether the log has it that the node does not vote, so that it gets
// a line when the node votes again.
func (n *Node) ExpectUpLine(expect bool) { n.status.downLog = expect }

// ReportUp records that the node votes. quietly is set if the log needs no line for that.
func (n *Node) ReportUp(quietly bool) {
	s := &n.status
	s.failures = 0
	n.stalled.Store(false)
	if s.downLog && !quietly {
		n.cfg.Events.Log(slog.LevelInfo, "a node is up: it votes", "node", n.Name)
	}
	s.downLog = false
	if s.turn(up) && n.cfg.Observer != nil {
		n.cfg.Observer.NodeUp(n.Index, n.Name)
	}
}

// ReportDown records that the node cannot be used, after every attempt to.
func (n *Node) ReportDown(err error) {
	err = Advise(err)
	var known *UnfitError
	s, now := &n.status, n.cfg.Clock()
	s.failures++
	switch {
	case errors.As(err, &known):
		s.downLog = true // that was logged
	case !s.downLog && s.failures >= failuresBeforeLog && (s.downAt == 0 || now-s.downAt >= downLogInterval):
		s.downLog, s.downAt = true, now
		n.cfg.Events.Log(slog.LevelWarn, "a node is down; locks go on while a majority votes", "node", n.Name, "error", err)
	}
	to := down
	if IsPermanent(err) {
		to = unfit
	}
	if s.turn(to) && n.cfg.Observer != nil {
		n.cfg.Observer.NodeDown(n.Index, n.Name, to == unfit, err)
	}
}

// ReportQuarantine records that the node does not vote yet, for wait if that is known, and
// why.
func (n *Node) ReportQuarantine(wait time.Duration, why error) {
	if n.status.turn(quarantined) && n.cfg.Observer != nil {
		n.cfg.Observer.NodeQuarantined(n.Index, n.Name, wait, why)
	}
}

// ReportStalled records that a ballot did not wait for the node, whose answers are overdue.
func (n *Node) ReportStalled() {
	if n.cfg.Observer == nil || !n.stalled.CompareAndSwap(false, true) {
		return
	}
	var silence time.Duration
	if p := n.link.pipe.Load(); p != nil {
		silence = p.Silence(n.cfg.Clock())
	}
	n.cfg.Observer.NodeStalled(n.Index, n.Name, silence)
}

// Answered records that a call had an answer: err is nil, or the server's error reply.
// Another error is none.
func (n *Node) Answered(err error) {
	if !n.stalled.Load() {
		return
	}
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		n.stalled.Store(false)
	}
}

// logProblems logs the node's problems, but none that it had at the last handshake.
func (n *Node) logProblems(problems ...string) {
	for _, problem := range problems {
		if !slices.Contains(n.status.problems, problem) {
			n.cfg.Events.Log(slog.LevelWarn, problem, "node", n.Name)
		}
	}
	n.status.problems = problems
}

// Unfit logs why the node cannot vote until a person acts, and returns that as an error.
func (n *Node) Unfit(reason string) error {
	n.logProblems("the node does not vote: " + reason)
	return &UnfitError{reason}
}
