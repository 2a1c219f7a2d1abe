package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/system"
)

// maxBacklog is how many bytes may be unanswered at a node. Above it attempts and renewals leave the node out; for a
// release the connection is dropped, and the releases become undos.
const maxBacklog = 32 << 20

// Pool makes connections to one server.
type Pool interface {
	GetContext(context.Context) (redis.Conn, error)
}

// Config is what all nodes of a client have in common.
type Config struct {
	Clock      system.Clock
	Wall       system.Wall
	Random     system.Random
	Events     *notify.Queue
	Observer   Observer // nil: none
	Identities *Identities
	Majority   *Majority
	Closed     error // why connections end when Run's context does

	// Misconfigured is the error of a pool that a person must mend; the node is unfit meanwhile.
	Misconfigured error

	// DeadAfter is how long an answer may be overdue before the connection is given up. It
	// bounds dials and handshakes too.
	DeadAfter time.Duration
}

// Observer is informed when a node's condition changes. Its methods must not block. They
// are called from Run's goroutine, NodeStalled and NodeRefuses from any.
type Observer interface {
	NodeUp(index int, name string)
	NodeDown(index int, name string, unfit bool, err error)
	NodeQuarantined(index int, name string, wait time.Duration, err error)
	NodeStalled(index int, name string, silence time.Duration)
	NodeRefuses(index int, name string, err error)
}

// Admitter decides whether a node's server may vote. All methods are called from Run's
// goroutine.
type Admitter interface {
	// Connected begins the admission of a run of the server over a new connection. run is
	// "" if the server does not name its run.
	Connected(p *pipe.Pipe, run string)

	// Check does what is due, and returns when to call it again. It may take long.
	Check(ctx context.Context) time.Duration

	// Recheck returns a channel that gets a value when Check is due now.
	Recheck() <-chan struct{}

	// Disconnected ends the right to vote: there is no connection any more.
	Disconnected()
}

// Node is one master as the client sees it. Run keeps a connection to it; other goroutines
// only queue commands there.
type Node struct {
	Index    int
	Name     string
	Counters *Counters
	Status   Status

	cfg      *Config
	pool     Pool
	admitter Admitter

	link  link
	undos undoLog
	old   oldConnections

	offset  offset // of the server's clock
	scripts scriptLoader
	setGet  atomic.Bool // the server understands SET with NX and GET together
}

// Counters count a node's votes by outcome, votes that came too late, and connections.
// They have cache lines of their own: the reader of the node's connection counts, while
// all callers read the node's other fields.
type Counters struct {
	Votes    [4]atomic.Uint64
	Late     atomic.Uint64
	Connects atomic.Uint64
	_        [2]uint64 // to 64 bytes
}

// New makes a node. Its admitter must be set before Run.
func New(index int, name string, pool Pool, cfg *Config) *Node {
	n := &Node{
		Index:    index,
		Name:     name,
		Counters: &Counters{},
		cfg:      cfg,
		pool:     pool,
	}
	n.Status.index, n.Status.name, n.Status.cfg = index, name, cfg
	n.link.down = errConnecting
	n.undos = undoLog{name: name, cfg: cfg, link: &n.link, byOwner: make(map[string]*Undo)}
	n.old = oldConnections{name: name, cfg: cfg, link: &n.link, ids: make(map[int64]bool)}
	return n
}

// NoteSilence has calls fail with the reason that the node does not answer within d, if the first attempt to connect
// has neither succeeded nor failed.
func (n *Node) NoteSilence(d time.Duration) { n.link.noteSilence(d) }

// Use sets the admitter.
func (n *Node) Use(a Admitter) { n.admitter = a }

// Pipe returns the node's connection; nil if there is none.
func (n *Node) Pipe() *pipe.Pipe { return n.link.pipe.Load() }

// UnderstandsSetGet reports whether the server understands SET with NX and GET together.
func (n *Node) UnderstandsSetGet() bool { return n.setGet.Load() }

// Queue puts a call into the node's queue. p is not nil when the caller must flush it;
// load is the number of commands unanswered there. With an error nothing was queued. If on is
// not nil, the call relies on that connection, and goes over no other. A call leaves out a node that has been silent for
// timeout, unless it must be sent: a release waits for a stalled node.
func (n *Node) Queue(c *pipe.Call, on *pipe.Pipe, now, timeout time.Duration,
	must bool) (p *pipe.Pipe, load int, err error) {
	p = n.link.pipe.Load()
	if p == nil {
		return nil, 0, n.Why()
	}
	if on != nil && on != p {
		return nil, 0, ErrReconnected
	}
	limit := pipe.Limit{Silence: timeout, Bytes: maxBacklog}
	if must {
		limit.Silence = system.Forever
	}
	flush, load, err := p.Queue(c, now, &limit)
	if err != nil {
		switch {
		case must:
			// Not here: breaking a pipe informs other ballots, and the caller has its own
			// ballot locked.
			go p.Kill(fmt.Errorf("a release could not be queued: %w", err))
		case errors.Is(err, pipe.ErrStalled):
			n.ReportStalled()
		}
		return nil, 0, err
	}
	if !flush {
		p = nil
	}
	return p, load, nil
}

// Why returns why the node has no connection to vote on. It is never nil: a connection
// that is made just now comes too late for the caller.
func (n *Node) Why() error { return n.link.why() }

// HandleError acts on an error that came in the place of an answer.
func (n *Node) HandleError(err error) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return
	}
	switch c := code(reply); {
	case c == "NOSCRIPT":
		if p := n.link.pipe.Load(); p != nil {
			n.scripts.reload(p, n.cfg.Clock)
		}
	case c == "ERR":
		if strings.Contains(string(reply), "syntax") {
			n.setGet.Store(false) // the server rejects it, though its version should know it
		}
	case isOfOtherServer(c):
		// A new handshake identifies it. The other calls on this connection count as unanswered.
		n.Reconnect(fmt.Errorf("it answered another call with an error: %w", reply))
	case IsRefusal(err) && !LacksCommand(err):
		n.Status.Refuse(err)
	}
}

// Reconnect drops the node's connection; Run makes a new one.
func (n *Node) Reconnect(why error) {
	if p := n.link.pipe.Load(); p != nil {
		p.Kill(why)
	}
}

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

// Status is what the log and the observer know of a node. Run's goroutine calls its exported methods. Refusal, Refuse
// and Accept may be called from any.
type Status struct {
	index int // of the node
	name  string
	cfg   *Config

	// stalled is set while the node is reported as stalled: ballots leave it out. Any
	// goroutine uses it.
	stalled atomic.Bool

	acceptance

	// Used by Run's goroutine alone.
	failures   int           // in a row
	downLogged bool          // the log says that the node does not vote
	downAt     time.Duration // when it was last logged as down
	problems   []string      // of the last handshake, which were logged
}

// setCondition sets the condition, and reports whether the observer must know. A node that refuses is not reported as
// up.
func (s *Status) setCondition(to condition) (report bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report = s.condition != to && (to != up || s.Refusal() == nil)
	s.condition = to
	return report
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
	case IsRefusal(err) && s.isRefusalLogged(): // by Refuse
	case !s.downLogged && s.failures >= failuresBeforeLog && (s.downAt == 0 || now-s.downAt >= downLogInterval):
		s.logDown(now, err)
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

// logDown logs that the node is down, and whether locks go on. Where that is not certain yet, it leaves the line to the
// next failure.
func (s *Status) logDown(now time.Duration, err error) {
	votes, known := s.cfg.Majority.votesWithout(s.index)
	if !known {
		return
	}
	s.downLogged, s.downAt = true, now
	if votes {
		s.cfg.Events.Log(slog.LevelWarn, "a node is down; locks go on while a majority votes", "node", s.name, "error",
			err)
	} else {
		s.cfg.Events.Log(slog.LevelWarn, "a node is down, and no majority votes", "node", s.name, "error", err)
	}
}

// ReportQuarantine records that the node does not vote yet, for wait if that is known, and
// why.
func (s *Status) ReportQuarantine(wait time.Duration, why error) {
	at := standing{state: absent}
	if wait > 0 {
		at = standing{state: waiting, until: s.cfg.Clock() + wait}
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
func (s *Status) Answered(err error) {
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
