package admission

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// firstLooks keeps the quarantines that a new client finds at its first connections, so
// that a new cluster gets one line in the log instead of two for each node. The nodes'
// goroutines add to it, and Group.Settle ends it.
type firstLooks struct {
	mu    sync.Mutex   // protects what follows; nothing else is locked under it
	over  bool         // end has run: each later quarantine is logged when it is found
	found []quarantine // found before end; after it, those that its one line counts and that are not over
}

// quarantine is a node's quarantine that the client found at its first connection.
type quarantine struct {
	member *Member
	until  time.Duration // on the client's clock
}

// add records a quarantine unless end has run, and reports whether it did: then end logs
// it, else the caller must.
func (f *firstLooks) add(m *Member, until time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.found = append(f.found, quarantine{m, until})
	}
	return !f.over
}

// voted removes the quarantine of a node that votes now, and reports whether there was
// one. Then the vote needs no line of its own: either the one line about all quarantines
// announced it, or none was logged yet.
func (f *firstLooks) voted(m *Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(m)
}

// failed removes the quarantine of a node that failed after end logged the one line
// about all quarantines, and reports whether there was one. From then on the node logs
// for itself.
func (f *firstLooks) failed(m *Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over && f.remove(m)
}

// remove removes the node's quarantine and reports whether there was one. Called under f.mu.
func (f *firstLooks) remove(m *Member) bool {
	before := len(f.found)
	f.found = slices.DeleteFunc(f.found, func(q quarantine) bool { return q.member == m })
	return len(f.found) < before
}

// end logs the quarantines that were found when the first connections are settled: in
// one line if a quorum of the nodes waits, else in a line for each node. Only a node
// with a line of its own also logs when it votes. end reports whether it logged one line
// for a quorum.
func (f *firstLooks) end(g *Group) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	now := g.cfg.Clock()
	if len(f.found) < g.terms.Quorum {
		slices.SortFunc(f.found, func(a, b quarantine) int { return cmp.Compare(a.member.Index, b.member.Index) })
		for _, q := range f.found {
			q.member.logQuarantine(q.until - now)
		}
		f.found = nil
		return false
	}
	last := slices.MaxFunc(f.found, func(a, b quarantine) int { return cmp.Compare(a.until, b.until) })
	g.cfg.Events.Log(slog.LevelWarn, "a majority of the nodes has no record of this run of its server (a new "+
		"cluster, or servers that were restarted or wiped); locks wait until every "+
		"lease that the nodes may have forgotten has ended",
		"nodes", len(f.found), "of", g.terms.Nodes, "wait", last.until-now)
	return true
}

// logQuarantine logs that the node does not vote until its quarantine is over.
func (m *Member) logQuarantine(left time.Duration) {
	m.group.cfg.Events.Log(slog.LevelWarn,
		"a node has no record of this run of its server (it is new, or was restarted, or wiped); "+
			"it votes once every lease that it may have forgotten has ended", "node", m.Name, "wait", left)
}

// loggedWait is what the log says of a node that does not vote yet.
type loggedWait struct {
	run        protocol.Run  // of its server; "" while it votes: nothing is logged, nor will be
	quarantine string        // for which it waits; "": for another node's
	until      time.Duration // when it votes, on the client's clock
	over       bool          // it says that the node does not vote though the wait is over
}

// logLongerWait logs that the node's wait ends later than was logged. A longer guard has a quarantine of another name.
// A quarantine of the same name lasts longer only if its server's clock was set back.
func (m *Member) logLongerWait(left time.Duration, quarantine string) {
	if quarantine != "" && quarantine == m.logged.quarantine {
		m.group.cfg.Events.Log(slog.LevelWarn,
			"a node waits for longer than was logged: its server's clock was set back",
			"node", m.Name, "wait", left)
		return
	}
	m.group.cfg.Events.Log(slog.LevelWarn,
		"a node waits for longer than was logged: a majority of the nodes lost its memory, "+
			"or a client uses a longer ttl", "node", m.Name, "wait", left)
}

// logOverdue logs, once, that the node does not vote though the wait that was logged is over, and why. The end of that
// is unknown, so the line names the nodes for which it may wait.
func (a *admission) logOverdue(why error) {
	m := a.member
	if m.logged.run != a.run || m.logged.over || m.group.cfg.Clock() <= m.logged.until+waitTolerance {
		return
	}
	m.logged.over = true
	attrs := []any{"node", m.Name, "error", why}
	var silent []string
	for _, other := range m.group.Members {
		if other != m && !other.right.Load().votes() {
			silent = append(silent, other.Name)
		}
	}
	if len(silent) > 0 {
		attrs = append(attrs, "not_voting", strings.Join(silent, ", "))
	}
	m.group.cfg.Events.Log(slog.LevelWarn, "a node's wait is over, and it does not vote yet", attrs...)
}
