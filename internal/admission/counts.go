package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/protocol"
)

// ErrDamaged is why a vote with a count that no clock explains does not count: it would be
// spread to a majority, and tokens could not grow from there.
var ErrDamaged = errors.New("it answered a count that no clock explains; its record is checked")

// updateGreatest computes anew up to which count answers are believed. A clock that is far
// ahead makes that less strict, and never too strict.
func (g *Group) updateGreatest() {
	var now time.Duration
	for _, m := range g.Members {
		if ahead, known := m.Offset(); known {
			now = max(now, g.cfg.Clock()+ahead)
		}
	}
	g.greatest.Store(protocol.GreatestCount(now))
}

// Believes reports whether a clock explains a count that the node answered. If not, the
// node's record is checked soon.
func (m *Member) Believes(count int64) bool {
	if count <= m.group.greatest.Load() {
		return true
	}
	m.doubt()
	return false
}

// doubt makes Run check the node's record soon. A check that found it damaged is repeated
// after a pause.
func (m *Member) doubt() {
	if !m.doubted.Swap(true) {
		m.Nudge()
	}
}

// isUncountable reports whether err is a server's refusal to count on from what a record has.
func isUncountable(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.Contains(string(reply), "not an integer") || strings.Contains(string(reply), "would overflow"))
}

// Failed records that a vote by this right got an error in the place of an answer: the node may have counted it
// without a record, or its record cannot be counted on.
func (m *Member) Failed(by *VoteRight, err error) {
	if !by.votes() || m.group.terms.Off {
		return
	}
	m.orphan.Store(&by.Record)
	if isUncountable(err) {
		m.doubt()
	}
}

// verify checks the record of a node that answered a count which no clock explains. If the
// record is in order, the answer was damaged on its way. If not, and a quorum of other nodes is
// in order, the record is deleted: the node has lost its memory, and is refilled by them
// after a quarantine. ok reports whether the node votes on.
func (a *admission) verify(ctx context.Context, key string) (next time.Duration, ok bool) {
	m, g := a.member, a.member.group
	record, err := protocol.ReadMemory(a.ask("HGETALL", key))
	if err != nil {
		return a.fail(a.explain(err)), false
	}
	if record.IsExplained(g.greatest.Load()) {
		m.doubted.Store(false)
		return 0, true
	}
	c := &collected{}
	c.addOthers(ctx, a, a.inquire(), "")
	if c.admitted < g.terms.Quorum {
		return a.fail(m.Status.Unfit("its record is damaged: it has a count that no clock explains, and no quorum of other nodes " +
			"can replace it; delete its key redlock::record:* when the others vote, or at all nodes that say this")), false
	}
	g.cfg.Events.Log(slog.LevelWarn, "a node's record is damaged: it has a count that no clock explains; it is deleted, "+
		"and the node votes again after a quarantine, with the counters of the others", "node", m.Name)
	m.Status.ExpectUpLine(true)
	a.fail(ErrDamaged)
	if _, err := a.ask("DEL", key); err != nil {
		return a.fail(fmt.Errorf("admission: %w", err)), false
	}
	m.doubted.Store(false)
	return time.Millisecond, false
}
