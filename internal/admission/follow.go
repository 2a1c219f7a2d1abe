package admission

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A client follows the list of masters. It takes a list that follows its own, connects to masters that its settings do not
// name, and gives the list to servers that stand in an earlier one. docs/safety.md (The next list) has the argument.

var (
	// errBehind is why a node does not vote until it gets the client's list.
	errBehind = errors.New("it stands in an earlier list of masters than this client's, and is about to get that")

	// errLeft is why a node is not asked whose server is no master any more.
	errLeft = errors.New("it is no master any more")
)

// takes reports whether a list in which a node stands takes the place of the client's. Called under g.standing.
func (g *Group) takes(list, now *protocol.List) bool {
	switch {
	case now == nil:
		return g.concerns(list, g.isUndisputed(list))
	case now.ID == list.ID || now.Follows(list):
		return false
	}
	return list.Follows(now) || g.standingIn(list.ID) >= list.Quorum() && g.concerns(list, list.IsSuccessor())
}

// isUndisputed reports whether a list followed another one, or no node that the settings name can stand in another list, or stood
// there last: all have been looked at. Called under g.standing.
func (g *Group) isUndisputed(list *protocol.List) bool {
	return list.IsSuccessor() || !slices.ContainsFunc(g.members()[:g.terms.Nodes], func(m *Member) bool {
		its := m.stood.ID
		return its != "" && its != list.ID || its == "" && m.right.Load() == nil
	})
}

// concerns reports whether a list is of this client's cluster: most of the nodes that the settings name stand in it or in a list
// before it, or stood there last, or are named in it; of a small list, as many as are a majority of that. Called under g.standing.
func (g *Group) concerns(list *protocol.List, small bool) bool {
	stand, named := 0, 0
	for _, m := range g.members()[:g.terms.Nodes] {
		if m.stood.ID == list.ID || list.Follows(&m.stood) {
			stand++
		}
		if list.Has(m.master) {
			named++
		}
	}
	need := g.terms.Quorum
	if small {
		need = min(need, list.Quorum())
	}
	return max(stand, named) >= need
}

// hear takes a list that follows the client's, as a server shows it that stands in none, or after it was chosen.
func (g *Group) hear(list *protocol.List) {
	moved := func() {}
	defer func() { moved() }()
	g.standing.Lock()
	defer g.standing.Unlock() // before moved
	if now := g.Roster.Load().List; now != nil && list.Follows(now) {
		heard := *list
		heard.Arg = heard.ID
		moved = g.take(&heard, nil)
	}
}

// knows reports whether a list is of this client's cluster, also where its settings would not show that any more.
func (g *Group) knows(list *protocol.List) bool {
	g.standing.Lock()
	defer g.standing.Unlock()
	now := g.Roster.Load().List
	return now != nil && (list.ID == now.ID || list.Follows(now) || now.Follows(list)) || g.concerns(list, g.isUndisputed(list))
}

// take makes a list the client's, as the node by shows it, if any. Masters that have no node get one, and nodes that were opened
// for masters that left end. The caller must call moved when it has unlocked g.standing. Called under g.standing.
func (g *Group) take(list *protocol.List, by *Member) (moved func()) {
	var joined []*Member
	before, all := g.Roster.Load(), slices.Clone(g.members())
	for _, m := range all[g.terms.Nodes:] {
		if !list.Has(m.master) {
			m.leave()
		}
	}
	for _, master := range list.Names() {
		if slices.ContainsFunc(all, func(m *Member) bool { return !m.left && m.masterOf(list) == master }) {
			continue
		}
		pool, err := g.terms.Open(list.Names(), master)
		if err != nil {
			g.cfg.Events.Log(slog.LevelWarn, "a master of the list in force has no pool; this client does without its vote",
				"master", master, "error", err)
			continue
		}
		at := slices.IndexFunc(all, func(m *Member) bool { return m.left })
		if at < 0 {
			at, all = len(all), append(all, nil)
		}
		all[at] = g.newMember(node.New(at, fmt.Sprintf("node %d (%s)", at, master), pool, g.cfg), master)
		joined = append(joined, all[at])
	}
	g.setRoster(all, list)
	g.cfg.Majority.Need(list.Quorum())
	g.nudgeOthers(by, before.List)
	g.terms.Changed(before, g.Roster.Load())
	return func() { g.terms.Moved(joined) }
}

// setRoster makes these the nodes, and a list the client's. Called under g.standing.
func (g *Group) setRoster(all []*Member, list *protocol.List) {
	r := &Roster{Nodes: all, Need: list.Quorum(), List: list}
	for i, m := range all {
		if m.left || m.masterOf(list) == "" {
			r.Strangers |= 1 << i
		}
	}
	g.Roster.Store(r)
}

// leave ends a node whose server is no master any more. Called under g.standing.
func (m *Member) leave() {
	if m.left {
		return
	}
	m.left, m.stands, m.stood = true, place{}, protocol.List{}
	m.end(errLeft)
	m.Node.Leave()
}

// install gives the node's server a later list.
func (a *admission) install(next *protocol.List) time.Duration {
	call := protocol.InstallCall{Run: a.run, List: a.list.ID, Next: *next}
	if _, err := protocol.ReadInstall(a.ask("EVAL", call.Eval()...)); err != nil {
		return a.fail(a.explain(err))
	}
	return time.Millisecond
}
