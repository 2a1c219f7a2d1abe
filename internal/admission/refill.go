package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// refill collects the other nodes' counters, and admits the node. The quarantine of this
// name is over, after a guard of this length: counters that are collected from now on
// include every lease that the node forgot.
func (a *admission) refill(ctx context.Context, name string, guard time.Duration) time.Duration {
	m, terms := a.member, &a.member.group.terms
	c, err := a.collect(ctx)
	switch {
	case err != nil:
		return a.fail(fmt.Errorf("admission: %w", err))
	case !c.isSufficient(terms):
		return a.fail(fmt.Errorf("it is new, or lost its memory, and votes again with the counters of %d other nodes that vote (%d answered)",
			terms.Quorum, c.admitted))
	case max(c.longest, m.longestTTL()) > guard:
		// A client used a longer ttl than the guard allowed for.
		m.group.raiseLongest(c.longest)
		return time.Millisecond
	case c.fromClock && m.hasVoted && guard < MajorityLossGuard:
		// The record of the longest ttl may be lost; another client may still know it.
		a.minGuard = MajorityLossGuard
		return time.Millisecond
	}
	record := recordsOf(a.run) + name
	older, olderQuarantine := c.obsoleteKeys(a, record)
	args := []any{record, a.key("quarantine"), a.key("bar"), protocol.NewestKey, older, olderQuarantine, protocol.FormatKey,
		name, terms.Nodes, max(c.longest, m.longestTTL()).Milliseconds()}
	for _, count := range c.counts {
		args = append(args, count)
	}
	switch admitted, err := redis.Int(a.eval(protocol.Admit, 7, args...)); {
	case err != nil:
		return a.fail(fmt.Errorf("admission: %w", err))
	case admitted == 0:
		return time.Millisecond // the node was wiped again meanwhile: begin anew
	}
	a.levelUntil = m.group.cfg.Clock() + 4*retryInterval
	return a.step(ctx)
}

// collected are the nodes' counters, and what else their records and clocks show.
type collected struct {
	counts     [protocol.Stripes]int64
	longest    time.Duration
	admitted   int    // other nodes that have a record
	unadmitted int    // nodes that answered that they have none, this one among them
	now        int64  // the largest server time among them, in microseconds
	fromClock  bool   // the counters began from it
	older      string // the key of this node's record before this one; "" if there is none
	olderRun   string // the run of that record, if known
}

// isSufficient reports whether the counters can be trusted: either a quorum of other nodes
// reported theirs, and every earlier lease was counted by one of them; or so many nodes
// have no record that no quorum of admitted nodes can exist, and the counters begin from
// the clock.
func (c *collected) isSufficient(terms *Terms) bool {
	if c.admitted >= terms.Quorum {
		return true
	}
	if c.unadmitted < terms.Nodes-terms.Quorum+1 {
		return false
	}
	c.fromClock = true
	for i := range c.counts {
		c.counts[i] = max(c.counts[i], c.now, protocol.FirstCount)
	}
	return true
}

// collect asks all other nodes for their records, and this one for an older one.
func (a *admission) collect(ctx context.Context) (*collected, error) {
	c := &collected{unadmitted: 1}
	others := a.inquire() // all at once: it takes as long as the slowest of them
	if err := c.addOwn(a); err != nil {
		return nil, err
	}
	c.addOthers(ctx, a, others)
	return c, ctx.Err()
}

// addOthers adds what other nodes answer.
func (c *collected) addOthers(ctx context.Context, a *admission, others []inquiry) {
	over, stop := context.WithTimeout(ctx, a.member.group.cfg.DeadAfter)
	defer stop()
	for _, o := range others {
		record, err := redis.StringMap(o.member.Await(over, o.record))
		if err != nil {
			continue // without an answer the node counts neither as admitted nor as unadmitted
		}
		if record["nodes"] == "" {
			c.unadmitted++
		} else if record["nodes"] == strconv.Itoa(a.member.group.terms.Nodes) {
			c.admitted++
			c.merge(record)
		}
		_ = c.addTime(o.member.Await(over, o.time)) // what cannot be read does not count
	}
}

// level raises the counters of a node that was just admitted to those of the others.
// Counters that began from the clocks began at different instants; and while others were
// collected, leases were granted. Otherwise the first lock of each stripe would have to
// raise the counter, and take one more round trip. A counter may be raised at any time.
func (a *admission) level(ctx context.Context) {
	m := a.member
	if r := m.right.Load(); r == nil || !r.Votes || m.group.cfg.Clock() >= a.levelUntil {
		return
	}
	c := &collected{}
	c.addOthers(ctx, a, a.inquire())
	if ctx.Err() != nil {
		return // the client ends: do not queue a command that may or may not be sent
	}
	args := []any{m.right.Load().Record}
	for _, count := range c.counts {
		args = append(args, count)
	}
	if _, err := a.eval(protocol.Level, 1, args...); err == nil && c.admitted == m.group.terms.Nodes-1 {
		a.levelUntil = 0
	}
}

// inquiry is a pair of questions to another node.
type inquiry struct {
	member       *Member
	record, time node.Question
}

// inquire asks all others that are connected for their records and their times.
func (a *admission) inquire() (all []inquiry) {
	for _, other := range a.member.group.Members {
		p, r := other.Pipe(), other.right.Load()
		if other == a.member || p == nil || r == nil {
			continue
		}
		all = append(all, inquiry{
			member: other,
			record: other.Ask(p, "EVAL", protocol.Record.Text, 1, r.key("bar"), recordsOf(r.run)),
			time:   other.Ask(p, "TIME"),
		})
	}
	return all
}

// addOwn adds what this node reports of itself: the record before this one, if there is
// one, and its time.
func (c *collected) addOwn(a *admission) error {
	older, err := redis.String(a.ask("GET", protocol.NewestKey))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if older != "" {
		record, err := redis.StringMap(a.ask("HGETALL", older))
		if err != nil {
			return err
		}
		c.merge(record)
		c.older = older
		c.olderRun, _, _ = strings.Cut(strings.TrimPrefix(older, protocol.Key("record", "")), ":")
	}
	return c.addTime(a.ask("TIME"))
}

// merge raises the counters to those of a record, and the longest ttl to the record's.
func (c *collected) merge(record map[string]string) {
	for i := range c.counts {
		count, err := strconv.ParseInt(record[strconv.Itoa(i)], 10, 64)
		if err == nil {
			c.counts[i] = max(c.counts[i], count)
		}
	}
	if ms, err := strconv.ParseInt(record["ttl"], 10, 64); err == nil {
		c.longest = max(c.longest, time.Duration(ms)*time.Millisecond)
	}
}

func (c *collected) addTime(reply any, err error) error {
	now, err := node.ServerTime(reply, err)
	c.now = max(c.now, now.Microseconds())
	return err
}

// obsoleteKeys returns the keys of the older record and of its run's quarantine, which are
// deleted once the counters are in the record of this name. If a run is unknown, it
// returns the current keys, and nothing is deleted: clients without the right to INFO
// would delete each other's records.
func (c *collected) obsoleteKeys(a *admission, record string) (older, quarantine string) {
	if c.older == "" || c.olderRun == unknownRun || a.run == unknownRun {
		return record, a.key("bar")
	}
	return c.older, protocol.Key("bar", c.olderRun)
}
