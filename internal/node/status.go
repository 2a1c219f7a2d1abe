package node

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// condition is a node's condition as it was last reported to the observer.
type condition int

const (
	unreported condition = iota
	down
	unfit // down until a person acts
	quarantined
	up
)

// A node is logged as down from failuresBeforeLog failures in a row on, and not more often
// than once in a downLogInterval: neither a connection that is made again at once nor a
// node that comes and goes fills the log.
const (
	failuresBeforeLog = 2
	downLogInterval   = 30 * time.Second
)

// Status is what the log and the observer know of a node. Its exported methods are called
// from Run's goroutine.
type Status struct {
	index int // of the node
	name  string
	cfg   *Config

	// stalled is set while the node is reported as stalled: ballots leave it out. Any
	// goroutine uses it.
	stalled atomic.Bool

	// Used by Run's goroutine alone.
	condition  condition
	failures   int           // in a row
	downLogged bool          // the log says that the node does not vote
	downAt     time.Duration // when it was last logged as down
	problems   []string      // of the last handshake, which were logged
}

// setCondition sets the condition, and reports whether that changed it.
func (s *Status) setCondition(to condition) (changed bool) {
	changed = s.condition != to
	s.condition = to
	return changed
}

// ExpectUpLine records whether the log says that the node does not vote. If so, ReportUp
// logs that it votes again.
func (s *Status) ExpectUpLine(expect bool) { s.downLogged = expect }

// ReportUp records that the node votes. quietly is set if the log needs no line for that.
func (s *Status) ReportUp(quietly bool) {
	s.failures = 0
	s.stalled.Store(false)
	if s.downLogged && !quietly {
		s.cfg.Events.Log(slog.LevelInfo, "a node is up: it votes", "node", s.name)
	}
	s.downLogged = false
	s.cfg.Majority.report(s.index, standing{state: voting})
	if s.setCondition(up) && s.cfg.Observer != nil {
		s.cfg.Observer.NodeUp(s.index, s.name)
	}
}

// ReportDown records that the node cannot be used, after every attempt to.
func (s *Status) ReportDown(err error) {
	err = Advise(err)
	var known *UnfitError
	now := s.cfg.Clock()
	s.failures++
	switch {
	case errors.As(err, &known):
		s.downLogged = true // by Unfit
	case !s.downLogged && s.failures >= failuresBeforeLog && (s.downAt == 0 || now-s.downAt >= downLogInterval):
		s.downLogged, s.downAt = true, now
		if s.cfg.Majority.votesWithout(s.index) {
			s.cfg.Events.Log(slog.LevelWarn, "a node is down; locks go on while a majority votes", "node", s.name, "error", err)
		} else {
			s.cfg.Events.Log(slog.LevelWarn, "a node is down, and no majority votes", "node", s.name, "error", err)
		}
	}
	to, state := down, uncertain
	if s.failures >= failuresBeforeLog {
		state = absent
	}
	if IsPermanent(err) {
		to, state = unfit, absent
	}
	s.cfg.Majority.report(s.index, standing{state: state})
	if s.setCondition(to) && s.cfg.Observer != nil {
		s.cfg.Observer.NodeDown(s.index, s.name, to == unfit, err)
	}
}

// ReportQuarantine records that the node does not vote yet, for wait if that is known, and
// why.
func (s *Status) ReportQuarantine(wait time.Duration, why error) {
	at := standing{state: absent}
	if wait > 0 {
		at = standing{waiting, s.cfg.Clock() + wait}
	}
	s.cfg.Majority.report(s.index, at)
	if s.setCondition(quarantined) && s.cfg.Observer != nil {
		s.cfg.Observer.NodeQuarantined(s.index, s.name, wait, why)
	}
}

// ReportStalled records that a ballot did not wait for the node, whose answers are overdue.
func (n *Node) ReportStalled() { n.Status.reportStalled(n.link.pipe.Load()) }

// reportStalled informs the observer once, until the node answers again. p is the node's
// connection; nil if there is none.
func (s *Status) reportStalled(p *pipe.Pipe) {
	if s.cfg.Observer == nil || !s.stalled.CompareAndSwap(false, true) {
		return
	}
	var silence time.Duration
	if p != nil {
		silence = p.Silence(s.cfg.Clock())
	}
	s.cfg.Observer.NodeStalled(s.index, s.name, silence)
}

// Answered records that a call was answered, if err is nil or the server's error reply. It
// ignores other errors.
func (n *Node) Answered(err error) { n.Status.answered(err) }

func (s *Status) answered(err error) {
	if !s.stalled.Load() {
		return
	}
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		s.stalled.Store(false)
	}
}

// logProblems logs those of the node's problems that it did not have at the last handshake.
func (s *Status) logProblems(problems ...string) {
	for _, problem := range problems {
		if !slices.Contains(s.problems, problem) {
			s.cfg.Events.Log(slog.LevelWarn, problem, "node", s.name)
		}
	}
	s.problems = problems
}

// Unfit logs why the node cannot vote until a person acts, and returns that as an error.
func (s *Status) Unfit(reason string) error {
	s.logProblems("the node does not vote: " + reason)
	return &UnfitError{reason}
}
