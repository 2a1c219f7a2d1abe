package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
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

// explains reports whether a clock explains all counts of a record.
func (g *Group) explains(record map[string]string) bool {
	return IsExplained(record, g.greatest.Load())
}

// IsExplained reports whether no count of a record is above the greatest that a clock explains.
func IsExplained(record map[string]string, greatest int64) bool {
	for i := range protocol.Stripes {
		count, err := strconv.ParseInt(record[strconv.Itoa(i)], 10, 64)
		if err != nil && errors.Is(err, strconv.ErrRange) || count > greatest {
			return false
		}
	}
	return true
}

// verify checks the record of a node that answered a count which no clock explains. If the
// record is in order, the answer was damaged on its way. If not, and a quorum of other nodes is
// in order, the record is deleted: the node has lost its memory, and is refilled by them
// after a quarantine. ok reports whether the node votes on.
func (a *admission) verify(ctx context.Context, key string) (next time.Duration, ok bool) {
	m, g := a.member, a.member.group
	record, err := redis.StringMap(a.ask("HGETALL", key))
	if err != nil {
		return a.fail(a.explain(err)), false
	}
	if g.explains(record) {
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
