package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// unknownRun is the name of a run whose server does not name it.
const unknownRun = "unknown"

const (
	// retryInterval is how soon an admission that could not be finished is tried again.
	retryInterval = 250 * time.Millisecond

	// ProbeInterval is how often the record of a node that votes is read: for the longest
	// ttl that others use, and to see that it is still there. As often a look shows whether
	// the node does what a lock needs.
	ProbeInterval = 10 * time.Second

	// QuarantineInterval is how often, at least, a node in quarantine is probed: it may
	// have lost its memory once more, or another client may have admitted it.
	QuarantineInterval = 2 * time.Second

	// MajorityLossGuard is the least guard after a majority lost its memory: by its end
	// every connected client has probed the nodes, and has named the longest ttl that it
	// uses. It is also how far the servers' clocks may differ when counters begin from
	// them a second time: docs/safety.md has the bound.
	MajorityLossGuard = 2 * ProbeInterval
)

var (
	// ErrForgot is why a node does not vote where the record is gone that the client knows.
	ErrForgot = errors.New("it lost its memory, and votes again once every lease that it may have forgotten has ended; " +
		"or the list of masters has just changed")

	// ErrAdmitting is why a node is not asked while a client admits it: its quarantine is over.
	ErrAdmitting = errors.New("it was new, or had lost its memory, and is being admitted again")

	// errLooking is why a node waits to be admitted: this client has not looked at some other node yet. It lasts no
	// longer than the first connections.
	errLooking = fmt.Errorf("it votes once this client has looked at all other nodes: %w", ErrAdmitting)

	// ErrRegistering is why a node is not asked for a lock whose ttl is longer than any
	// before: the ttl must be on record first, so that no node that forgets a vote for it
	// is admitted again too early.
	ErrRegistering = errors.New("the lock's ttl is longer than any before, and is being registered at the node")
)

// QuarantineError is why a node is not asked before its quarantine is over.
type QuarantineError struct {
	Left time.Duration
	name string // for reports: of the quarantine; "" if the node waits for another node's. Refusals leave it empty
}

func (e *QuarantineError) Error() string {
	return fmt.Sprintf("it does not vote for another %v: it is new, or lost its memory, and others' leases must end first",
		e.Left.Round(time.Millisecond))
}

// connection is a connection to a run of a server.
type connection struct {
	pipe *pipe.Pipe
	run  protocol.Run
}

// admission is the admission of a member over one connection.
type admission struct {
	connection
	member     *Member
	minGuard   time.Duration // the least guard for this loss of memory
	longest    time.Duration // as in VoteRight, by the last look
	levelUntil time.Duration // until when to raise its counters to those of the others
	list       protocol.List // in which the server stands, or stood last, by the last look; zero: in none
	self       string        // which of the list's masters it is

	seal   string        // that the server has; "": none that counts
	sealed time.Duration // since when, on the client's clock
}

// Connected implements node.Admitter.
func (m *Member) Connected(p *pipe.Pipe, run string) {
	m.current = admission{connection: connection{p, protocol.Run(cmp.Or(run, unknownRun))}, member: m}
}

// set records the node's right to vote on this connection.
func (a *admission) set(r VoteRight) {
	r.connection = a.connection
	if r.Record == nil {
		r.Record = protocol.Key("record", string(a.run))
	}
	r.Longest = max(r.Longest, a.longest)
	m, why := a.member, r.why
	r.why = node.Advise(why) // votes and Stats show it; Report adds the advice by itself
	before := m.right.Swap(&r)
	news := r.Votes && !before.votes() || r.bare && !before.isBare()
	if news {
		m.group.doubtOthers(m)
	}
	to := node.Standing{State: node.Quarantined, Cause: why, Run: string(a.run)}
	quarantine, waits := why.(*QuarantineError)
	switch {
	case r.Votes:
		to.State = node.Up
	case waits:
		to.Wait, to.Quarantine = quarantine.Left, quarantine.name
	case a.pipe.Err() != nil:
		to.State = node.Breaking
	}
	m.Status.Report(to)
	if news {
		m.group.recheckOthers(m) // after the report: they may wait for this client's look at the node
	}
}

// step does what can be done now, and returns after what time to call it again.
func (a *admission) step(ctx context.Context) time.Duration {
	m, g := a.member, a.member.group
	// The name comes first: while the simulation draws it, answers of other nodes at this instant may raise the guard.
	name := g.cfg.Random.ID(m.Name)
	guard := max(m.guard(), a.minGuard)
	nodes, _ := g.size()
	call := protocol.ProbeCall{Run: a.run, Nodes: nodes, Longest: m.longestTTL(), Guard: guard, Default: max(guard, g.terms.TTL), Name: name.String()}
	orphan := m.orphan.Load()
	if orphan != nil {
		call.Orphan = *orphan
	}
	look := m.Look(a.pipe) // its answer comes ahead of the probe's
	asked := g.cfg.Clock()
	reply, err := protocol.ReadProbe(a.call(call.Call()))
	if err == nil {
		m.orphan.CompareAndSwap(orphan, nil)
		err = a.lacks(look)
	}
	if reply.Time > 0 {
		m.WatchClock(reply.Time, asked)
		a.list, a.self = reply.List, reply.Self
	}
	switch { // also where the look finds that the node cannot vote: leases are renewed there
	case reply.Barred != nil:
		a.longest = reply.Barred.Guard
		m.standNowhere(&a.list)
		g.hear(&a.list)
	case reply.Whole != nil:
		a.longest = reply.Whole.Longest
	}
	switch q := reply.Barred; {
	case err != nil:
		if node.IsRefusal(err) {
			m.Status.Refuse(err)
		}
		if a.votes() && !a.lacksRecord(err) {
			return system.Jitter(g.cfg.Random, retryInterval, m.Name) // it votes by what was known before
		}
		return a.fail(a.explain(err))
	case reply.Whole != nil:
		next := a.whole(ctx, reply.Whole)
		a.level(ctx)
		return next
	case reply.Format:
		return a.fail(m.Status.Unfit("another version of this library keeps its records there in another format: " +
			"all clients must use versions that share one (docs/protocol.md)"))
	case q.Left > 0 && a.lacksMajority(ctx, q):
		a.minGuard = MajorityLossGuard
		return time.Millisecond
	case q.Left > 0 && m.standsStill(q):
		return a.fail(m.Status.Unfit("its clock stands still, so its quarantine never ends, as at miniredis without ClockTTL; " +
			"for tests use package redlocktest, or WithRestartGuard(0)"))
	case q.Left > 0:
		return a.wait(q.Left, q.Quarantine)
	default:
		g.progress.begin(m)
		return a.refill(ctx, q, call.Name)
	}
}

// isForeign reports whether err is a server's refusal of a key of another type, which another
// program has put in place of the library's. Not all servers begin a script's error with its code.
func isForeign(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(string(reply), "WRONGTYPE")
}

// lacksRecord reports whether the probe failed with err since another program's key stands in
// place of the record by which the node votes: it refuses every vote.
func (a *admission) lacksRecord(err error) bool {
	if !isForeign(err) {
		return false
	}
	_, err = a.ask("HEXISTS", a.member.right.Load().Record, "nodes")
	return isForeign(err)
}

// explain returns why a step failed, with the remedy where another program's key is in its way.
func (a *admission) explain(err error) error {
	if isForeign(err) {
		return a.member.Status.Unfit(fmt.Sprintf("another program has keys of another type under redlock::, the prefix of this library's own; "+
			"delete those of them that are redlock::record:*, redlock::quarantine:*, redlock::members, redlock::seal, redlock::newest or redlock::format: %v", err))
	}
	return fmt.Errorf("admission: %w", err)
}

// lacksMajority reports whether the node's quarantine is too short, since a majority of the
// nodes lost its memory with it. refill would find that at the end of the quarantine, too.
func (a *admission) lacksMajority(ctx context.Context, q *protocol.Barred) bool {
	m, g := a.member, a.member.group
	nodes, quorum := g.size()
	if !m.hasVoted || q.Guard >= MajorityLossGuard || g.bare(m) < nodes-quorum {
		return false
	}
	c := &collected{} // the others may be admitted again, by other clients
	c.addOthers(ctx, a, a.inquire(), q.First)
	return c.admitted < c.quorum && c.unadmitted > c.nodes-c.quorum
}

// otherNumber is why a node does not vote that belongs to so many.
func (m *Member) otherNumber(nodes int) error {
	return m.Status.Unfit(fmt.Sprintf("it is a master of a cluster of %d nodes, and this client has %d, of which most are none of "+
		"them: every client must be given all of them", nodes, m.group.terms.Nodes))
}

// whole lets the node vote by the record that it has.
func (a *admission) whole(ctx context.Context, w *protocol.Whole) time.Duration {
	m := a.member
	if low := m.tooLow.Swap(nil); low != nil && *low == w.Record {
		m.doubted.Store(true) // the record is not missing
	}
	if m.doubted.Load() {
		if next, ok := a.verify(ctx, w.Record); !ok {
			return next
		}
	}
	m.group.raiseLongest(w.Longest)
	list, err := m.stand(a.list, a.self)
	switch {
	case err == errBehind && m.behind == a.list.ID:
		return a.install(list)
	case err != nil:
		m.behind = a.list.ID
		return a.fail(err)
	}
	a.set(VoteRight{Record: w.Record, Votes: true, List: list})
	m.hasVoted = true
	m.group.voted.Store(true)
	a.minGuard = 0
	if m.group.cfg.Clock() < a.levelUntil {
		return retryInterval
	}
	return ProbeInterval
}

// wait keeps the node from voting until its quarantine of this name is over, or another node's for which it waits ("" then).
// It returns after what time to probe the node again.
func (a *admission) wait(left time.Duration, quarantine string) time.Duration {
	until := a.member.group.cfg.Clock() + left
	a.set(VoteRight{why: &QuarantineError{left, quarantine}, until: until, bare: true})
	return min(left, QuarantineInterval)
}

// fail keeps the node from voting, for the reason err, and returns after what time to try
// again.
func (a *admission) fail(err error) time.Duration { return a.failAs(VoteRight{why: err}) }

// failAs is fail with more to say.
func (a *admission) failAs(r VoteRight) time.Duration {
	a.set(r)
	return system.Jitter(a.member.group.cfg.Random, retryInterval, a.member.Name)
}

// votes reports whether the node votes over this connection.
func (a *admission) votes() bool {
	r := a.member.right.Load()
	return r.votes() && r.pipe == a.pipe
}

// lacks returns why a node does not begin to vote, by a look: it lacks a command for good, and would grant locks that it
// cannot renew. Of all other refusals the node's Status knows.
func (a *admission) lacks(look node.Question) error {
	if _, err := a.member.AwaitInTime(look); node.IsPermanent(err) && !a.votes() {
		return err
	}
	return nil
}

// voteAtOnce is step for a client whose nodes vote whatever they have forgotten.
func (a *admission) voteAtOnce() time.Duration {
	if err := a.lacks(a.member.Look(a.pipe)); err != nil {
		return a.fail(a.explain(err))
	}
	a.set(VoteRight{Votes: true, Longest: a.member.group.terms.MaxTTL})
	return ProbeInterval
}

// call calls a script by its hash; by its text where the server has forgotten the script.
func (a *admission) call(c protocol.Call) (any, error) {
	reply, err := a.ask("EVALSHA", c.EvalSHA()...)
	if node.IsCode(err, "NOSCRIPT") {
		return a.ask("EVAL", c.Eval()...)
	}
	return reply, err
}

func (a *admission) ask(command string, args ...any) (any, error) {
	return a.await(a.member.Ask(a.pipe, command, args...))
}

func (a *admission) await(q node.Question) (any, error) {
	reply, err := a.member.AwaitInTime(q)
	if err == nil {
		a.member.group.progress.answered.Store(int64(a.member.group.cfg.Clock()))
	}
	return reply, err
}
