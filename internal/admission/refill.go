package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// refill collects the other nodes' counters, and admits the node. Its quarantine is over:
// counters that are collected from now on include every lease that the node forgot. seal is a name that nothing else has.
func (a *admission) refill(ctx context.Context, q *protocol.Barred, seal string) time.Duration {
	m, terms := a.member, &a.member.group.terms
	// All as they are before the nodes are asked: a node that connects meanwhile is not asked.
	began, looked, voted := m.group.cfg.Clock(), m.group.cfg.Majority.HasSeenAll(&m.Status), m.group.voted.Load()
	c, err := a.collect(ctx, q.First)
	if err != nil {
		return a.fail(a.explain(err))
	}
	from := c.basis()
	if from == nothing {
		return a.failAs(VoteRight{bare: true, why: fmt.Errorf("it is new, or lost its memory, and votes again with "+
			"the counters of %d other nodes that vote (%d answered)", c.quorum, c.admitted)})
	}
	if c.list.ID == "" {
		c.list = protocol.NewList(seal, m.group.masters())
	}
	self, misfit := a.placeIn(c)
	least := a.leastGuard(c, from, voted)
	switch {
	case misfit != nil:
		return a.fail(misfit)
	case from != others && !looked:
		return a.failAs(VoteRight{bare: true, why: errLooking})
	case least > q.Guard:
		m.group.raiseLongest(c.longest)
		a.minGuard = least
		return time.Millisecond
	}
	call := protocol.AdmitCall{Run: a.run, Quarantine: q.Quarantine, Nodes: c.nodes, Longest: max(c.longest, m.longestTTL()),
		List: c.list, Self: self, Before: a.list.ID, Choice: c.choice, Counts: c.counts}
	switch from {
	case together:
		call.Together, call.Seal = c.listed, c.seal
	case clock:
		if next, ok := a.begin(ctx, q, c, self, seal); !ok {
			return next
		}
		if m.group.cfg.Clock()-began > protocol.SealTTL/2 {
			return a.putOff(errSealed)
		}
		call.Together, call.Seal = strings.Join(c.firsts, " "), terms.Client+seal
		call.Counts = c.countersFrom(m.group.beginning(c.latest()))
	case others:
		if a.list.ID == "" && (a.seal == "" || began-a.sealed > protocol.SealTTL/2) {
			return a.reserveOwn(ctx, q, seal, began)
		}
		call.Seal = a.seal
	}
	a.seal = ""
	call.Older, call.OlderRun = c.obsolete(a.run)
	switch admitted, err := protocol.ReadAdmit(a.ask("EVAL", call.Eval()...)); {
	case err != nil:
		return a.fail(a.explain(err))
	case !admitted:
		return time.Millisecond // the node was wiped again meanwhile, or sealed: begin anew
	}
	a.levelUntil = m.group.cfg.Clock() + 4*retryInterval
	return a.step(ctx)
}

// leastGuard returns how long the quarantine must be: as long as the longest ttl that any client has used. A quorum of
// others knows that ttl. Without one, the quarantine of another node may be longer, since a client knew a longer ttl. The
// clients that know it look at the nodes within MajorityLossGuard; a new cluster has none. voted says whether this client
// has seen any node vote.
func (a *admission) leastGuard(c *collected, from basis, voted bool) time.Duration {
	m := a.member
	least := max(c.longest, m.longestTTL())
	if from == others {
		return least
	}
	if m.hasVoted || from == clock && voted || !c.isNew(from) {
		least = max(least, MajorityLossGuard)
	}
	return max(least, c.guard)
}

// collected are the nodes' counters, and what else their records and clocks show.
type collected struct {
	list       protocol.List // in which this node stood last, else the one that most others show, or a successor; zero: there is none
	nodes      int           // how many masters it has or, while there is none, the settings name
	quorum     int           // of these
	choice     protocol.Choice
	answers    []answer // of the other nodes that are masters of it
	counts     [protocol.Stripes]int64
	longest    time.Duration
	admitted   int           // other nodes that have a record of the list
	unadmitted int           // nodes that answered that they have none, this one among them
	remember   int           // nodes that stand in the list, or stood there last, this one among them
	foreign    int           // other nodes that stand, or stood last, in another list
	left       time.Duration // the greatest time that another one's quarantine has left; 0: all are over
	unseen     bool          // no client has looked at another one
	guard      time.Duration // the longest of the quarantines of the other unadmitted ones
	firsts     []string      // the first quarantines of the other unadmitted ones
	listed     string        // the list of those that forgot together, on a record that names this node
	seal       string        // the seal that those had
	own        string        // this node's seal; "" if it has none
	times      []int64       // the server times among them, in microseconds
	older      string        // the key of this node's record before this one; "" if there is none
	olderRun   protocol.Run  // the run of that record, if known
	hadRecord  bool          // that record is still there: the node has voted before
}

// answer is what another node answered.
type answer struct {
	inquiry
	protocol.Standing
}

// basis is why collected counters can be trusted.
type basis int

const (
	nothing  basis = iota // they cannot
	others                // a quorum of other nodes reported theirs, and one of them counted every earlier lease
	together              // the node forgot together with one whose counters began from the clock
	clock                 // so many nodes have no record that no quorum of admitted nodes can exist
)

// basis returns why the counters can be trusted. docs/safety.md has the argument.
func (c *collected) basis() basis {
	switch {
	case c.admitted >= c.quorum:
		return others
	case c.listed != "":
		return together
	case c.unadmitted >= c.nodes-c.quorum+1:
		return clock
	}
	return nothing
}

// countersFrom returns the node's new counters where they begin from the clock.
func (c *collected) countersFrom(beginning int64) [protocol.Stripes]int64 {
	counts := c.counts
	for i := range counts {
		counts[i] = max(counts[i], beginning, protocol.FirstCount)
	}
	return counts
}

// isNew reports whether the cluster is new: no node had a record when counters began from the clock, this node's
// server has no older one, and no server without a record remembers a list.
func (c *collected) isNew(from basis) bool {
	forgot := len(c.firsts)
	if from == together {
		forgot = len(strings.Fields(c.listed))
	}
	return !c.hadRecord && c.remember == c.admitted && forgot == c.nodes-1
}

// collect asks all other nodes for their records, and this one for an older one. first is
// the node's first quarantine since its loss.
func (a *admission) collect(ctx context.Context, first string) (*collected, error) {
	c := &collected{}
	asked := a.inquire() // all at once: it takes as long as the slowest of them
	if err := c.addOwn(a); err != nil {
		return nil, err
	}
	c.addOthers(ctx, a, asked, first)
	if c.own != c.seal && a.list.ID == "" {
		c.listed = "" // the seal is over: the list begins again
	}
	return c, ctx.Err()
}

// addOthers adds what other nodes answer.
func (c *collected) addOthers(ctx context.Context, a *admission, asked []inquiry, first string) {
	over, stop := context.WithTimeout(ctx, a.member.group.cfg.DeadAfter)
	defer stop()
	for _, o := range asked {
		its, err := protocol.ReadStanding(o.member.Await(over, o.record))
		if err == nil && !its.IsExplained(a.member.group.greatest.Load()) {
			err = node.ErrDamaged
			o.member.doubt()
		}
		if err != nil {
			continue // without an answer the node counts neither as admitted nor as unadmitted
		}
		c.answers = append(c.answers, answer{o, its})
		_ = c.addTime(o.member.Await(over, o.time)) // what cannot be read does not count
	}
	c.count(a, first)
	raise(&a.member.counted, slices.Max(c.counts[:]))
}

// chooseList chooses the list: that in which this node stood last, or else the one that most others show; or a successor,
// which is known to have been chosen.
func (c *collected) chooseList(a *admission) {
	g := a.member.group
	if c.list = a.list; c.list.ID == "" {
		c.list = c.mostShown()
	}
	for _, o := range c.answers {
		if o.List.Follows(&c.list) {
			c.list = o.List
		}
	}
	if mine := g.Roster.Load().List; mine != nil && mine.Follows(&c.list) {
		c.list = *mine
	}
	if c.nodes, c.quorum = g.terms.Nodes, g.terms.Quorum; c.list.ID != "" {
		c.nodes, c.quorum = c.list.Len(), c.list.Quorum()
	}
}

// placeOf returns which of the masters of the collected list another node is.
func (c *collected) placeOf(o *answer) string {
	if o.List.ID == c.list.ID {
		return o.Self
	}
	return o.member.masterOf(&c.list)
}

// count chooses the list, and counts the answers of its masters.
func (c *collected) count(a *admission, first string) {
	c.chooseList(a)
	c.unadmitted = 1
	if a.list.ID != "" {
		c.remember++
	}
	c.answers = slices.DeleteFunc(c.answers, func(o answer) bool { return c.list.ID != "" && c.placeOf(&o) == "" })
	for _, o := range c.answers {
		switch {
		case c.list.Follows(&o.List) && o.Nodes != "":
			o.member.Nudge() // it is given the list
			c.merge(&o.Memory, a.member.group.greatest.Load())
			continue
		case o.List.ID != "" && o.List.ID != c.list.ID && !c.list.Follows(&o.List), o.Nodes != "" && !o.IsOf(c.nodes):
			c.foreign++
			continue
		case o.List.ID != "":
			c.remember++
		}
		if o.List.ID == c.list.ID {
			c.choice.Merge(o.Choice)
		}
		if o.Nodes == "" {
			if !c.addUnadmitted(&o.Standing) {
				o.member.Nudge()
			}
			continue
		}
		c.admitted++
		c.merge(&o.Memory, a.member.group.greatest.Load())
		if slices.Contains(strings.Fields(o.Together), first) && (c.listed == "" || o.Seal == c.own) {
			c.listed, c.seal = o.Together, o.Seal
		}
	}
}

// mostShown returns the list that most of the others show; of two with as many, the first. A record of a list counts for
// more than any number of nodes that only remember another one.
func (c *collected) mostShown() (most protocol.List) {
	best := 0
	for _, o := range c.answers {
		shown := 0
		for _, p := range c.answers {
			if p.List.ID == o.List.ID {
				shown++
				if p.Nodes != "" {
					shown += len(c.answers)
				}
			}
		}
		if o.List.ID != "" && shown > best {
			best, most = shown, o.List
		}
	}
	return most
}

// addUnadmitted adds another node that has no record. It reports false if no client has
// looked at the node since it lost its memory.
func (c *collected) addUnadmitted(its *protocol.Standing) bool {
	c.unadmitted++
	if !its.Looked {
		c.unseen = true
		return false
	}
	c.firsts = append(c.firsts, its.First)
	c.guard = max(c.guard, its.Guard)
	c.left = max(c.left, its.Left)
	return true
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
	c.addOthers(ctx, a, a.inquire(), "")
	if ctx.Err() != nil {
		return // the client ends: do not queue a command that may or may not be sent
	}
	call := protocol.LevelCall{Record: m.right.Load().Record, Counts: c.counts}
	if _, err := a.ask("EVAL", call.Eval()...); err == nil && c.admitted == c.nodes-1 {
		a.levelUntil = 0
	}
}

// inquiry is a pair of questions to another node.
type inquiry struct {
	member       *Member
	pipe         *pipe.Pipe
	run          protocol.Run
	record, time node.Question
}

// inquire asks all others that are connected for their records and their times.
func (a *admission) inquire() (all []inquiry) {
	for _, other := range a.member.group.members() {
		p, r := other.Pipe(), other.right.Load()
		if other == a.member || p == nil || r == nil {
			continue
		}
		all = append(all, inquiry{
			member: other, pipe: p, run: r.run,
			record: other.Ask(p, "EVAL", protocol.RecordCall{Run: r.run}.Eval()...),
			time:   other.Ask(p, "TIME"),
		})
	}
	return all
}

// addOwn adds what this node reports of itself: the record before this one, if there is
// one, its seal and its time.
func (c *collected) addOwn(a *admission) error {
	m := a.member
	asked := [...]node.Question{m.Ask(a.pipe, "GET", protocol.NewestKey), m.Ask(a.pipe, "GET", protocol.SealKey),
		m.Ask(a.pipe, "TIME")}
	older, err := redis.String(a.await(asked[0]))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if c.own, err = redis.String(a.await(asked[1])); err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	if err := c.addTime(a.await(asked[2])); err != nil {
		return err
	}
	if strings.HasPrefix(older, protocol.Key("record", "")) { // else another program wrote it
		record, err := protocol.ReadMemory(a.ask("HGETALL", older))
		if err != nil {
			return err
		}
		c.merge(&record, m.group.greatest.Load())
		c.older, c.olderRun = older, protocol.RunOf(older)
		c.hadRecord = record.Nodes != "" // else it was deleted, as by those who change the number of masters
	}
	return nil
}

// merge raises the counters to those of a record, as far as they are not above the greatest
// that a clock explains, and the longest ttl to the record's.
func (c *collected) merge(record *protocol.Memory, greatest int64) {
	for i, count := range record.Counts {
		if count <= greatest {
			c.counts[i] = max(c.counts[i], count)
		}
	}
	c.longest = max(c.longest, record.Longest)
}

func (c *collected) addTime(reply any, err error) error {
	now, err := node.ServerTime(reply, err)
	if err == nil {
		c.times = append(c.times, now.Microseconds())
	}
	return err
}

// latest returns the latest of the clocks' times, but for clocks that are so far ahead of the
// others that nobody would believe the counts; 0: there is none.
func (c *collected) latest() (latest int64) {
	times := slices.Sorted(slices.Values(c.times))
	for _, t := range times {
		if t <= protocol.GreatestCount(time.Duration(times[(len(times)-1)/2])*time.Microsecond) {
			latest = t
		}
	}
	return latest
}

// obsolete returns the older record, which is deleted once the counters are in a record of this run, and its run. If a
// run is unknown, it returns none: clients without the right to INFO would delete each other's records.
func (c *collected) obsolete(run protocol.Run) (older string, olderRun protocol.Run) {
	if c.olderRun == unknownRun || run == unknownRun {
		return "", ""
	}
	return c.older, c.olderRun
}
