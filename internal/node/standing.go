package node

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/system"
)

// This file decides what the log says about nodes. A node reports each Standing; Status.log writes
// the lines about that node, and Majority.log those about all nodes together.

// Standing is a node's state, and why and for how long it does not vote.
type Standing struct {
	State      State
	Cause      error         // why it does not vote, or refuses; else nil
	Run        string        // of the server; "" without a connection
	Quarantine string        // for which the node waits; "": for another node's
	Wait       time.Duration // until it votes; 0: not known
	Silence    time.Duration // Stalled: age of the oldest unanswered call
}

// State is what a node reports of itself. The observer is informed of each but Breaking. Stalled and
// Refusing are for the observer alone: calls find them, and Report does not take them.
type State string

const (
	Up          State = "up"          // it votes
	Quarantined State = "quarantined" // it is connected, and does not vote yet
	Breaking    State = "breaking"    // its connection broke: the state before lasts until it is Down
	Down        State = "down"        // it cannot be reached or used
	Unfit       State = "unfit"       // the same until a person acts; Report knows that by the cause
	Stalled     State = "stalled"     // its answers are overdue, whatever its state
	Refusing    State = "refusing"    // it refuses what locks need, whatever its state
)

// Observer is informed when a node's state changes, from any goroutine and under the Majority's mu
// or a ballot's: it must not block, nor call this package.
type Observer interface {
	NodeChanged(index int, name string, to Standing)
}

const (
	// failuresBeforeLog is from how many failures in a row on a node is logged as down: a connection
	// that is made again at once needs no line.
	failuresBeforeLog = 2

	// logInterval is how often, at most, a notice is logged: a node that comes and goes does not fill
	// the log.
	logInterval = 30 * time.Second

	// WaitTolerance is by how much a wait may last longer than was logged without another line: a
	// person reads seconds.
	WaitTolerance = time.Second
)

// notice is a line of the log that holds until another line ends it.
type notice struct {
	holds bool
	at    time.Duration // when it was last logged; 0: never
}

// begin reports whether the notice must be logged now.
func (n *notice) begin(now time.Duration) bool {
	if n.holds || n.at > 0 && now-n.at < logInterval {
		return false
	}
	n.holds, n.at = true, now
	return true
}

// end ends the notice, and reports whether it held.
func (n *notice) end() bool {
	held := n.holds
	n.holds = false
	return held
}

// loggedWait is what the log says of a node that waits.
type loggedWait struct {
	run        string        // of its server; "": the log says nothing
	quarantine string        // for which it waits; "": for another node's
	until      time.Duration // when it votes, on the client's clock
	over       bool          // the log says that the node does not vote though the wait is over
}

// Refusal is why a node does not do what a lock needs, though it is connected.
type Refusal struct {
	Err   error // the server's, with its remedy
	Since time.Duration
}

// Status is what the client, the log and the observer know of one node. Run's goroutine calls Report,
// Unfit and logProblems; any goroutine Refusal, Refuse, Accept and Answered. The rest is called under
// the Majority's mu.
type Status struct {
	index int // of the node
	name  string
	cfg   *Config

	stalled  atomic.Bool             // the observer knows that it is Stalled
	refusal  atomic.Pointer[Refusal] // nil: none is known; stored under the Majority's mu
	problems []string                // that the last handshake logged; used by Run's goroutine alone

	// Protected by the Majority's mu.
	state    State         // that was reported last; "": none was
	until    time.Duration // when the node votes, on the client's clock; 0: not known
	failures int           // in a row
	doubted  bool          // the state is out of date
	counted  bool          // the line about a new cluster announces when the node votes, or will
	absent   notice        // the log says that the node does not vote
	refuses  notice        // the log says that the node refuses what locks need
	wait     loggedWait
}

// Report records how the node stands now, logs the difference, and informs the observer of a new
// state.
func (s *Status) Report(to Standing) {
	m, now, err := s.cfg.Majority, s.cfg.Clock(), Advise(to.Cause)
	if IsPermanent(err) {
		to.State = Unfit
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch to.State {
	case Up:
		s.failures = 0
		s.stalled.Store(false)
	case Down, Unfit:
		s.failures++
	}
	s.log(&to, err, now)
	if to.State == Breaking {
		return
	}
	isNews := s.state != to.State && (to.State != Up || s.Refusal() == nil)
	s.state, s.until, s.doubted = to.State, 0, false
	if to.Wait > 0 {
		s.until = now + to.Wait
	}
	m.log(now)
	if isNews {
		to.Cause = err
		s.inform(to)
	}
}

// inform informs the observer, if there is one.
func (s *Status) inform(to Standing) {
	if o := s.cfg.Observer; o != nil {
		o.NodeChanged(s.index, s.name, to)
	}
}

// log logs how a new standing differs from what the log says of the node. Once the first connections
// are settled, a cell has the line, and behind the arrow what the log says from then on:
//
//	the log says   Up                  Down                  Quarantined, in a new run
//	nothing        → nothing           "is down" → absent    "has no record" → absent
//	counted        → nothing           "is down" → absent    "has no record" → absent
//	absent         "is up" → nothing   → absent              "has no record" → absent
//
// Before that, a quarantine has no line but is counted, and only the line about a new cluster tells
// of it. "is down" comes with the second failure in a row, once in 30 s at most, when it is certain
// whether a majority votes; not for a node that is Unfit, or whose refusal the log has. A run may get
// two more lines: "waits for longer" and "wait is over". A damaged record has a line → absent. err is
// the cause with its remedy. Called under the Majority's mu.
func (s *Status) log(to *Standing, err error, now time.Duration) {
	m, events := s.cfg.Majority, s.cfg.Events
	next := loggedWait{to.Run, to.Quarantine, now + to.Wait, false}
	switch {
	case to.State == Up:
		if s.absent.end() && !s.counted {
			events.Log(slog.LevelInfo, "a node is up: it votes", "node", s.name)
		}
		s.counted, s.wait = false, loggedWait{}
	case to.State == Down || to.State == Unfit:
		s.logDown(err, now)
	case to.Cause == ErrDamaged:
		s.absent.holds = true
		events.Log(slog.LevelWarn, "a node's record is damaged: it has a count that no clock explains; it is "+
			"deleted, and the node votes again after a quarantine, with the counters of the others", "node", s.name)
	case to.Wait > 0 && to.Run != s.wait.run:
		s.absent.holds, s.counted, s.wait = true, !m.settled, next
		if m.settled {
			s.logQuarantine(to.Wait)
		}
	case to.Wait > WaitTolerance && next.until > s.wait.until+WaitTolerance:
		// A longer guard has a quarantine of another name.
		if to.Quarantine != "" && to.Quarantine == s.wait.quarantine {
			events.Log(slog.LevelWarn, "a node waits for longer than was logged: its server's clock was set back",
				"node", s.name, "wait", to.Wait)
		} else {
			events.Log(slog.LevelWarn, "a node waits for longer than was logged: a majority of the nodes lost its "+
				"memory, or a client uses a longer ttl", "node", s.name, "wait", to.Wait)
		}
		s.wait = next
	}
	w := &s.wait
	if w.run == "" || w.run != to.Run || w.over || to.Wait > 0 || now <= w.until+WaitTolerance {
		return
	}
	w.over = true
	var others []string // the node may wait for one of them
	for _, o := range m.nodes {
		if o != s && o.state != Up {
			others = append(others, o.name)
		}
	}
	attrs := []any{"node", s.name, "error", to.Cause}
	if len(others) > 0 {
		attrs = append(attrs, "not_voting", strings.Join(others, ", "))
	}
	events.Log(slog.LevelWarn, "a node's wait is over, and it does not vote yet", attrs...)
}

// logDown logs that the node is down, and whether locks go on. Where that is not certain yet, it
// leaves the line to the next failure. Called under the Majority's mu.
func (s *Status) logDown(err error, now time.Duration) {
	m, events := s.cfg.Majority, s.cfg.Events
	if m.settled && s.counted {
		s.counted, s.absent.holds = false, false // the line about a new cluster says nothing of a failure
	}
	votes, known := m.votesWithout(s)
	var logged *UnfitError
	switch {
	case errors.As(err, &logged): // by Unfit
		s.absent.holds = true
	case IsRefusal(err) && s.refuses.holds: // by Refuse
	case s.failures < failuresBeforeLog || !known || !s.absent.begin(now):
	case votes:
		events.Log(slog.LevelWarn, "a node is down; locks go on while a majority votes", "node", s.name, "error", err)
	default:
		events.Log(slog.LevelWarn, "a node is down, and no majority votes", "node", s.name, "error", err)
	}
}

// logQuarantine logs that the node does not vote until its quarantine is over.
func (s *Status) logQuarantine(left time.Duration) {
	s.cfg.Events.Log(slog.LevelWarn,
		"a node has no record of this run of its server (it is new, or was restarted, or wiped); "+
			"it votes once every lease that it may have forgotten has ended", "node", s.name, "wait", left)
}

// Majority knows how the nodes of a client stand together. It logs when no majority of them votes,
// and when one votes again, which callers may await.
type Majority struct {
	clock  system.Clock
	events *notify.Queue

	mu      sync.Mutex // protects what follows and each Status; nothing else is locked under it
	need    int
	nodes   []*Status
	settled bool          // the first connections are settled
	waits   bool          // the log says that a majority waits for its first votes
	stopped notice        // the log says that no majority votes
	awaited chan struct{} // closed when a majority votes; nil if no caller awaits that
}

// NewMajority makes the Majority of a client. need is how many nodes must vote. Use adds the nodes.
func NewMajority(need int, clock system.Clock, events *notify.Queue) *Majority {
	return &Majority{need: need, clock: clock, events: events}
}

// Need sets how many must vote.
func (m *Majority) Need(need int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.need = need
}

// add counts a node from now on; remove, no more.
func (m *Majority) add(s *Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = append(m.nodes, s)
}

func (m *Majority) remove(s *Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = slices.DeleteFunc(m.nodes, func(other *Status) bool { return other == s })
}

// part is what a node's standing means for the majority.
type part int

const (
	unseen    part = iota // it has not reported
	uncertain             // it failed once, or is being checked
	voting
	waiting // in quarantine
	gone    // it failed again, or cannot vote until a person acts, or refuses what locks need
)

// part returns the node's part. Called under the Majority's mu.
func (s *Status) part() part {
	switch {
	case s.doubted || s.state == Down && s.failures < failuresBeforeLog:
		return uncertain
	case s.state == "":
		return unseen
	case s.state == Up && s.refusal.Load() == nil:
		return voting
	case s.until > 0:
		return waiting
	}
	return gone
}

// parts returns how many nodes have each part, without one of them if that is not nil. Called under
// m.mu.
func (m *Majority) parts(without *Status) (n [gone + 1]int) {
	for _, s := range m.nodes {
		if s != without {
			n[s.part()]++
		}
	}
	return n
}

// votesWithout reports whether the nodes but for one are a majority that votes. While that is not
// certain, known is false: a node that was not looked at, or failed once, may vote in a moment.
// Called under m.mu.
func (m *Majority) votesWithout(s *Status) (votes, known bool) {
	n := m.parts(s)
	votes = n[voting] >= m.need
	return votes, m.settled && n[unseen] == 0 && (votes || n[voting]+n[uncertain] < m.need)
}

// HasSeenAll reports whether each node but s has been looked at, could not be reached, or has not
// answered by the end of the first connections.
func (m *Majority) HasSeenAll(s *Status) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled || m.parts(s)[unseen] == 0
}

// Awaited returns a channel that is closed when a majority votes; nil if one does now.
func (m *Majority) Awaited() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts(nil)[voting] >= m.need {
		return nil
	}
	if m.awaited == nil {
		m.awaited = make(chan struct{})
	}
	return m.awaited
}

// Doubt records that a node's state is out of date: the node reports again at once.
func (m *Majority) Doubt(index int) {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.nodes {
		s.doubted = s.doubted || s.index == index
	}
	m.log(now)
}

// Settle ends the first connections. It logs the quarantines that were found: in one line if a
// majority waits, else in a line for each node. Only a node with a line of its own has another one
// when it votes. Settle reports whether each node has been looked at, or could not be reached.
func (m *Majority) Settle() (hasSeenAll bool) {
	now, last := m.clock(), time.Duration(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled = true
	var found []*Status
	for _, s := range m.nodes {
		if s.counted {
			found, last = append(found, s), max(last, s.wait.until)
		}
	}
	if m.waits = len(found) >= m.need; m.waits {
		m.events.Log(slog.LevelWarn, "a majority of the nodes has no record of this run of its server (a new "+
			"cluster, or servers that were restarted or wiped); locks wait until every "+
			"lease that the nodes may have forgotten has ended",
			"nodes", len(found), "of", len(m.nodes), "wait", last-now)
	} else {
		for _, s := range found {
			s.counted = false
			s.logQuarantine(s.wait.until - now)
		}
	}
	m.log(now)
	return m.parts(nil)[unseen] == 0
}

// log logs whether a majority votes, if that changed, and informs callers that await one. It logs
// nothing before the first connections are settled, and each node has been looked at. While the log
// says that a majority waits for its first votes, it needs no line about the others. A line that
// would come too soon after the last one comes when a node reports later: nodes that fail or wait
// report again and again. Called under m.mu.
func (m *Majority) log(now time.Duration) {
	n := m.parts(nil)
	if n[voting] >= m.need {
		m.waits = false
		if m.awaited != nil {
			close(m.awaited)
			m.awaited = nil
		}
	}
	without := n[gone]
	if !m.waits {
		without += n[waiting]
	}
	switch {
	case !m.settled || n[unseen] > 0:
	case n[voting] >= m.need:
		if m.stopped.end() {
			m.events.Log(slog.LevelInfo, "a majority of the nodes votes again; locks are granted",
				"voting", n[voting], "of", len(m.nodes))
		}
	case without > len(m.nodes)-m.need && m.stopped.begin(now):
		var lefts []time.Duration
		for _, s := range m.nodes {
			if p := s.part(); p == voting || p == waiting {
				lefts = append(lefts, max(s.until-now, 0))
			}
		}
		attrs := []any{"voting", n[voting], "of", len(m.nodes), "needed", m.need}
		if wait := VotesIn(lefts, m.need); wait > 0 {
			attrs = append(attrs, "wait", wait)
		}
		m.events.Log(slog.LevelError,
			"no majority of the nodes votes; no lock is granted, and leases end with their validity", attrs...)
	}
}

// VotesIn returns how long it is until so many nodes vote as must; lefts are the times after which
// nodes vote. It returns 0 if that is not known, or if so many vote already.
func VotesIn(lefts []time.Duration, need int) time.Duration {
	if len(lefts) < need {
		return 0
	}
	slices.Sort(lefts)
	return lefts[need-1]
}

// Refusal returns why the node does not do what a lock needs; nil if no vote or look showed that.
func (s *Status) Refusal() *Refusal { return s.refusal.Load() }

// Refuse records that the node refused what every lock needs: a vote or a look showed that.
func (s *Status) Refuse(err error) {
	m, now := s.cfg.Majority, s.cfg.Clock()
	r := Refusal{Err: Advise(err), Since: now}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := s.refusal.Load()
	if before != nil {
		r.Since = before.Since
	}
	s.refusal.Store(&r)
	if s.refuses.begin(now) {
		s.cfg.Events.Log(slog.LevelWarn, "a node answers, and refuses what every lock needs; locks go on while a "+
			"majority votes", "node", s.name, "error", r.Err)
	}
	if before != nil {
		return
	}
	m.log(now)
	s.inform(Standing{State: Refusing, Cause: r.Err})
}

// Accept records that the node did all that a lock needs: it granted one, or answered a look.
func (s *Status) Accept() {
	if s.refusal.Load() == nil {
		return
	}
	m, now := s.cfg.Majority, s.cfg.Clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := s.refusal.Swap(nil)
	if r == nil {
		return // another call was faster
	}
	if s.refuses.end() {
		s.cfg.Events.Log(slog.LevelInfo, "a node does what locks need again", "node", s.name, "after", now-r.Since)
	}
	m.log(now)
	if s.state == Up {
		s.inform(Standing{State: Up})
	}
}

// ReportStalled records that a ballot did not wait for the node, whose answers are overdue. It
// informs the observer once, until the node answers again.
func (n *Node) ReportStalled() {
	s := &n.Status
	if s.cfg.Observer == nil || !s.stalled.CompareAndSwap(false, true) {
		return
	}
	to := Standing{State: Stalled}
	if p := n.link.pipe.Load(); p != nil {
		to.Silence = p.Silence(s.cfg.Clock())
	}
	s.inform(to)
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
