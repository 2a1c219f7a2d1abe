package redlock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// gathered is what the nodes say of the counters.
type gathered struct {
	counts   [stripes]int64
	longest  time.Duration
	admitted int    // other nodes that have a record
	barred   int    // nodes that answered that they have none, this one among them
	now      int64  // the largest server time among them, in microseconds
	byClock  bool   // the counters began from it
	older    string // the key of this node's record before this one; "" if there is none
	olderRun string // the run that it was of, if that is known
}

// enough tells whether the counters can be trusted: either a quorum of other
// nodes told theirs, and so one that counted every lease before; or so many
// nodes have none that no quorum of admitted nodes can exist, and the counters
// begin from the clock.
func (g *gathered) enough(p *peers) bool {
	if g.admitted >= p.quorum {
		return true
	}
	if g.barred < p.nodes-p.quorum+1 {
		return false
	}
	g.byClock = true
	for i := range g.counts {
		g.counts[i] = max(g.counts[i], g.now, firstCount)
	}
	return true
}

// gather asks all other nodes for their records, and this one for an older one.
func (a *admission) gather(ctx context.Context) (*gathered, error) {
	g := &gathered{barred: 1}
	others := a.inquire() // all at once: the slowest of them counts, not their number
	if err := g.recall(a); err != nil {
		return nil, err
	}
	g.hear(ctx, a, others)
	return g, ctx.Err()
}

// hear takes what others answer.
func (g *gathered) hear(ctx context.Context, a *admission, others []inquiry) {
	over, stop := context.WithTimeout(ctx, a.node.patience)
	defer stop()
	for _, o := range others {
		record, err := redis.StringMap(o.node.answer(over, o.record))
		if err != nil {
			continue // no answer is no answer: neither admitted nor barred
		}
		if record["nodes"] == "" {
			g.barred++
		} else if record["nodes"] == strconv.Itoa(a.node.peers.nodes) {
			g.admitted++
			g.merge(record)
		}
		_ = g.time(o.node.answer(over, o.time)) // what cannot be read does not count
	}
}

// level lifts the counters of a node that was admitted just now to the others'. Where
// they began from the clock, each node's began at another instant; else leases were
// granted meanwhile. The first lock of every stripe would have to level it, and take a
// round trip more. A counter may be lifted at any time.
func (a *admission) level(ctx context.Context) {
	n := a.node
	if st := n.standing.Load(); st == nil || !st.votes || n.opts.clock() >= a.apart {
		return
	}
	g := &gathered{}
	g.hear(ctx, a, a.inquire())
	args := []any{n.standing.Load().record}
	for _, count := range g.counts {
		args = append(args, count)
	}
	if _, err := a.run(levelScript, 1, args...); err == nil && g.admitted == n.peers.nodes-1 {
		a.apart = 0
	}
}

// inquiry is what another node was asked.
type inquiry struct {
	node         *node
	record, time mailbox
}

// inquire asks all others that are connected for their records and their times.
func (a *admission) inquire() (all []inquiry) {
	for _, other := range a.node.peers.all {
		p, st := other.pipe.Load(), other.standing.Load()
		if other == a.node || p == nil || st == nil {
			continue
		}
		all = append(all, inquiry{
			node:   other,
			record: other.pose(p, "EVAL", recordScript.text, 1, keyOf("bar", st.run), recordsOf(st.run)),
			time:   other.pose(p, "TIME"),
		})
	}
	return all
}

// recall takes what this node says of itself: the record before this one, if there is
// one, and its time.
func (g *gathered) recall(a *admission) error {
	older, err := redis.String(a.ask("GET", reserved+"newest"))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if older != "" {
		record, err := redis.StringMap(a.ask("HGETALL", older))
		if err != nil {
			return err
		}
		g.merge(record)
		g.older = older
		g.olderRun, _, _ = strings.Cut(strings.TrimPrefix(older, keyOf("record", "")), ":")
	}
	return g.time(a.ask("TIME"))
}

// merge takes the counters of a record, where they are higher.
func (g *gathered) merge(record map[string]string) {
	for i := range g.counts {
		count, err := strconv.ParseInt(record[strconv.Itoa(i)], 10, 64)
		if err == nil {
			g.counts[i] = max(g.counts[i], count)
		}
	}
	if ms, err := strconv.ParseInt(record["ttl"], 10, 64); err == nil {
		g.longest = max(g.longest, time.Duration(ms)*time.Millisecond)
	}
}

func (g *gathered) time(reply any, err error) error {
	now, err := understandTime(reply, err)
	g.now = max(g.now, now.Microseconds())
	return err
}

// garbage are the older record, and the bar of its run, that go once their
// counters are in the record of this name. They stay where a run is unknown:
// clients that may not ask for it would take each other's away.
func (g *gathered) garbage(a *admission, record string) (older, bar string) {
	if g.older == "" || g.olderRun == unknownRun || a.runID == unknownRun {
		return record, a.key("bar")
	}
	return g.older, keyOf("bar", g.olderRun)
}
