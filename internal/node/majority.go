package node

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/system"
)

// Majority logs when no majority of a client's nodes votes, and when one votes again, which callers may await. The
// nodes report to it from their own goroutines.
type Majority struct {
	need   int
	clock  system.Clock
	events *notify.Queue

	mu        sync.Mutex // protects what follows; nothing else is locked under it
	nodes     []standing
	unseen    int           // nodes that have not reported yet
	refusing  []bool        // by node: it does not do what a lock needs, whatever its standing
	begun     bool          // the first connections are settled
	announced bool          // the log says that a majority waits for its first votes
	stopped   bool          // the log says that no majority votes
	stoppedAt time.Duration // when that was last logged; 0: never
	awaited   chan struct{} // closed when a majority votes; nil if nobody awaits that
}

// standing is what a node reported last.
type standing struct {
	state voter
	seen  bool          // it has reported
	until time.Duration // the end of its quarantine, on the client's clock; 0: not known
}

type voter int

const (
	uncertain voter = iota // it has not reported, failed once, or is being checked
	voting
	waiting // in quarantine
	absent  // it failed again, or cannot vote until a person acts
)

// NewMajority makes the Majority of so many nodes, of which need must vote.
func NewMajority(nodes, need int, clock system.Clock, events *notify.Queue) *Majority {
	return &Majority{need: need, clock: clock, events: events, nodes: make([]standing, nodes),
		refusing: make([]bool, nodes), unseen: nodes}
}

// Begin lets lines be logged. announced is set if the log says already that a majority waits: as
// long as it does, the loss of the others needs no line.
func (m *Majority) Begin(announced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.announced = true, announced
	m.judge()
}

// Doubt records that what a node reported is out of date: it reports again at once.
func (m *Majority) Doubt(index int) { m.report(index, standing{}) }

// report records a node's standing.
func (m *Majority) report(index int, s standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.nodes[index].seen {
		m.unseen--
	}
	s.seen = true
	m.nodes[index] = s
	m.judge()
}

// refuse records whether a node refuses what a lock needs. While it does, its vote counts for nothing.
func (m *Majority) refuse(index int, refuses bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusing[index] = refuses
	m.judge()
}

// state returns a node's part. Called under m.mu.
func (m *Majority) state(index int) voter {
	if s := m.nodes[index].state; s != voting || !m.refusing[index] {
		return s
	}
	return absent
}

// Awaited returns a channel that is closed when a majority votes; nil if one does now.
func (m *Majority) Awaited() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count(voting) >= m.need {
		return nil
	}
	if m.awaited == nil {
		m.awaited = make(chan struct{})
	}
	return m.awaited
}

// votesWithout reports whether the nodes but for one are a majority that votes. While that is not certain, known is
// false: a node that has not been looked at, or failed once, may vote in a moment.
func (m *Majority) votesWithout(index int) (votes, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sure, perhaps := m.count(voting), m.count(uncertain)
	switch m.state(index) {
	case voting:
		sure--
	case uncertain:
		perhaps--
	}
	return sure >= m.need, m.isSettled() && (sure >= m.need || sure+perhaps < m.need)
}

// HasSeenAll reports whether each node has been looked at, could not be reached, or has not answered by the end of the
// first connections.
func (m *Majority) HasSeenAll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun || m.unseen == 0
}

// isSettled reports whether every node has been looked at, and the first connections are settled: nothing is logged
// before. Called under m.mu.
func (m *Majority) isSettled() bool { return m.begun && m.unseen == 0 }

// judge logs what has changed, and tells those that await a majority. Called under m.mu. A line that came too
// soon after the last one is logged when a node reports later: nodes that fail or wait report again and again.
func (m *Majority) judge() {
	now, votes, gone := m.clock(), m.count(voting), m.count(absent)
	if votes >= m.need {
		m.announced = false
		if m.awaited != nil {
			close(m.awaited)
			m.awaited = nil
		}
	}
	if !m.announced {
		gone += m.count(waiting)
	}
	switch {
	case !m.isSettled():
	case m.stopped && votes >= m.need:
		m.stopped = false
		m.events.Log(slog.LevelInfo, "a majority of the nodes votes again; locks are granted", "voting", votes, "of",
			len(m.nodes))
	case !m.stopped && gone > len(m.nodes)-m.need && (m.stoppedAt == 0 || now-m.stoppedAt >= downLogInterval):
		m.stopped, m.stoppedAt = true, now
		attrs := []any{"voting", votes, "of", len(m.nodes), "needed", m.need}
		if wait := VotesIn(m.lefts(now), m.need); wait > 0 {
			attrs = append(attrs, "wait", wait)
		}
		m.events.Log(slog.LevelError,
			"no majority of the nodes votes; no lock is granted, and leases end with their validity", attrs...)
	}
}

// count returns the number of nodes with a part. Called under m.mu.
func (m *Majority) count(state voter) (n int) {
	for i := range m.nodes {
		if m.state(i) == state {
			n++
		}
	}
	return n
}

// lefts returns when the nodes vote of which that is known. Called under m.mu.
func (m *Majority) lefts(now time.Duration) (lefts []time.Duration) {
	for i, s := range m.nodes {
		switch state := m.state(i); {
		case state == voting:
			lefts = append(lefts, 0)
		case state == waiting && s.until > 0:
			lefts = append(lefts, max(s.until-now, 0))
		}
	}
	return lefts
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
