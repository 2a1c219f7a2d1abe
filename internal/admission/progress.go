package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// progress counts the admissions that are under way, so that calls and Close can await them.
// A node is admitted when its quarantine is over, and it can be finished as soon as enough
// other nodes have answered: so a node that is found to have no record, or that votes, makes
// the others check again.
type progress struct {
	mu   sync.Mutex    // protects what follows, and writes of Member.admitting; nothing else is locked under it
	idle chan struct{} // closed when none is under way; nil: none was
	open int

	answered atomic.Int64 // when a node answered last what an admission asked, on the client's clock
}

// begin records that the node's admission is under way.
func (p *progress) begin(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.admitting.Load() {
		return
	}
	m.admitting.Store(true)
	if p.open++; p.open == 1 {
		p.idle = make(chan struct{})
	}
}

// end records that the node's admission is not under way.
func (p *progress) end(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop(m)
}

// stop is end. Called under p.mu.
func (p *progress) stop(m *Member) {
	if !m.admitting.Load() {
		return
	}
	m.admitting.Store(false)
	if p.open--; p.open == 0 {
		close(p.idle)
	}
}

// checked records that a check of the node is over. Its admission goes on only if another
// check is due already, or very soon.
func (p *progress) checked(m *Member, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.right.Load().votes() || len(m.recheck) == 0 && next > soon {
		p.stop(m)
	}
}

// soon is for how long at most a check that goes on with an admission is put off.
const soon = time.Millisecond

// recheckOthers makes the nodes that may wait for this one check their admissions again.
func (g *Group) recheckOthers(m *Member) {
	if g.terms.Off {
		return
	}
	for _, other := range g.members() {
		r := other.right.Load()
		if other == m || r.votes() {
			continue
		}
		if r.isBare() && r.until <= g.cfg.Clock() {
			g.progress.begin(other)
		}
		other.Nudge()
	}
}

// doubtOthers has the log wait for the checks that recheckOthers makes.
func (g *Group) doubtOthers(m *Member) {
	for _, other := range g.members() {
		if r := other.right.Load(); !g.terms.Off && other != m && r.isBare() {
			g.cfg.Majority.Doubt(other.Index)
		}
	}
}

// AwaitAdmissions returns when no admission is under way, when ctx ends, or when the nodes have answered
// nothing that an admission asked since began, for as long as patience; at limit at the latest.
func (g *Group) AwaitAdmissions(ctx context.Context, began, patience, limit time.Duration) {
	for {
		g.progress.mu.Lock()
		idle := g.progress.idle
		g.progress.mu.Unlock()
		now := g.cfg.Clock()
		left := min(max(began, time.Duration(g.progress.answered.Load()))+patience, limit) - now
		if idle == nil || left <= 0 {
			return
		}
		select {
		case <-idle:
			return
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}
