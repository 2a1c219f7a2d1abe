package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// Admission: a master that lost its memory, or the last second of it, could
// vote twice and count tokens backwards. So a node votes for new leases only
// while it carries a record that names this run of its server. Who finds none
// bars the node for a guard, as long as any lease can last that it may have
// forgotten, and then fills its counters from others. docs/safety.md has the
// proof.

// Everything but the locks' own keys lies under this prefix.
const reserved = "redlock::"

// stripes is how many counters a record has. A lock's name is hashed to one of
// them: more stripes, fewer names that count together.
const stripes = 256

// lookAgain is how soon an admission that could not be finished is tried again.
const lookAgain = 250 * time.Millisecond

// standing is what a node knows of its right to vote, on one connection.
type standing struct {
	pipe    *pipe.Pipe    // the connection; on another one it says nothing
	record  any           // string: the key of the record of this run
	votes   bool          // it is admitted
	longest time.Duration // the longest ttl on its record
	why     error         // why it does not vote
	until   time.Duration // where that is a quarantine: its end, on the client's clock
}

// barredError is a node that does not vote before its quarantine is over.
type barredError struct{ left time.Duration }

func (e *barredError) Error() string {
	return fmt.Sprintf("it does not vote for another %v: it is new, or lost its memory, and others' leases must end first",
		e.left.Round(time.Millisecond))
}

// errRegistering is the answer to a lock whose ttl is longer than any before: it
// must be on record first, so that nobody who lost a vote for it is let back too
// early.
var errRegistering = errors.New("its ttl is being put on record")

// admission is the part of a node that lets it vote.
type admission struct {
	node  *node
	pipe  *pipe.Pipe
	runID string
	said  bool // that it waits was logged
}

func (a *admission) key(kind string) string { return reserved + kind + ":" + a.runID }

// newAdmission begins the admission of the node over a new connection.
func (n *node) newAdmission(p *pipe.Pipe) *admission {
	return &admission{node: n, pipe: p, runID: cmp.Or(n.last.runID, "unknown")}
}

// look does what can be done now, and returns when to look again.
func (a *admission) look(ctx context.Context) time.Duration {
	if a.node.opts.noGuard {
		a.node.standing.Store(&standing{pipe: a.pipe, record: a.key("record"), votes: true, longest: maxTTL})
		return forever
	}
	if d := a.step(ctx); d > 0 {
		return d
	}
	return forever
}

// forgot bars the node: a vote showed that its record is not whole.
func (n *node) forgot() {
	if st := n.standing.Load(); st != nil && st.votes && !n.opts.noGuard {
		n.standing.CompareAndSwap(st, &standing{pipe: st.pipe, record: st.record, why: errForgot})
	}
	n.nudge()
}

// step does what can be done now, and returns when to look again; 0 when the
// node votes and nothing is left to do.
func (a *admission) step(ctx context.Context) time.Duration {
	n := a.node
	guard := n.guard()
	reply, err := redis.Values(a.run(probeScript, 3, a.key("record"), a.key("quarantine"), a.key("bar"),
		n.peers.nodes, n.wanted().Milliseconds(), guard.Milliseconds(), rand.Text()))
	if err != nil {
		return a.fail(fmt.Errorf("admission: %w", err))
	}
	word, _ := redis.String(reply[0], nil)
	if word == "whole" {
		return a.whole(reply)
	}
	var name string
	var left, bar int64
	if _, err := redis.Scan(reply[1:], &name, &left, &bar); err != nil {
		return a.fail(fmt.Errorf("admission: %w", err))
	}
	if left > 0 {
		return a.wait(time.Duration(left) * time.Millisecond)
	}
	return a.refill(ctx, name, time.Duration(bar)*time.Millisecond)
}

// whole lets the node vote by the record it has.
func (a *admission) whole(reply []any) time.Duration {
	var nodes, longest int64
	if _, err := redis.Scan(reply[1:], &nodes, &longest); err != nil {
		return a.fail(fmt.Errorf("admission: %w", err))
	}
	n := a.node
	if int(nodes) != n.peers.nodes {
		return a.fail(n.misfit(fmt.Sprintf("its record is of a cluster of %d nodes, this client has %d: "+
			"every client must be given all of them", nodes, n.peers.nodes)))
	}
	n.standing.Store(&standing{
		pipe:    a.pipe,
		record:  a.key("record"),
		votes:   true,
		longest: time.Duration(longest) * time.Millisecond,
	})
	n.peers.learn(time.Duration(longest) * time.Millisecond)
	a.said = false
	return 0
}

// wait bars the node until its quarantine is over.
func (a *admission) wait(left time.Duration) time.Duration {
	n := a.node
	if !a.said {
		a.said = true
		n.opts.herald.log(slog.LevelInfo, "a node has no record of this run of its server (it is new, or was restarted, or wiped); "+
			"it votes when all leases must have ended that it may have forgotten", "node", n.name, "wait", left)
	}
	n.standing.Store(&standing{pipe: a.pipe, record: a.key("record"), why: &barredError{left}, until: n.opts.clock() + left})
	return left
}

// fail bars the node for the reason err, for the time being.
func (a *admission) fail(err error) time.Duration {
	a.node.standing.Store(&standing{pipe: a.pipe, record: a.key("record"), why: err})
	return lookAgain
}

// refill gathers what the other nodes have counted, and admits the node. Its
// quarantine of this name is over, after a guard of this length: what is
// gathered from now on contains every lease that the node forgot.
func (a *admission) refill(ctx context.Context, name string, guard time.Duration) time.Duration {
	n := a.node
	g, err := a.gather(ctx)
	switch {
	case err != nil:
		return a.fail(fmt.Errorf("admission: %w", err))
	case !g.enough(n.peers):
		return a.fail(fmt.Errorf("it is new, or lost its memory, and votes again with the counters of %d other nodes that vote (%d answered)",
			n.peers.quorum, g.admitted))
	case max(g.longest, n.wanted()) > guard:
		// Somebody used a longer ttl than the guard allowed for.
		n.peers.learn(g.longest)
		return time.Millisecond
	}
	args := []any{a.key("record"), a.key("quarantine"), a.key("bar"), reserved + "newest", g.older,
		name, n.peers.nodes, max(g.longest, n.wanted()).Milliseconds()}
	for _, count := range g.counts {
		args = append(args, count)
	}
	switch admitted, err := redis.Int(a.run(admitScript, 5, args...)); {
	case err != nil:
		return a.fail(fmt.Errorf("admission: %w", err))
	case admitted == 0:
		return time.Millisecond // it was wiped again meanwhile: from the beginning
	}
	return a.step(ctx)
}

// gathered is what the nodes say of the counters.
type gathered struct {
	counts   [stripes]int64
	longest  time.Duration
	admitted int    // other nodes that have a record
	barred   int    // nodes that answered that they have none, this one among them
	now      int64  // the largest server time among them, in microseconds
	older    string // the key of this node's record before this run
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
	for i := range g.counts {
		g.counts[i] = max(g.counts[i], g.now)
	}
	return true
}

// gather asks all other nodes for their records, and this one for an older one.
func (a *admission) gather(ctx context.Context) (*gathered, error) {
	n := a.node
	g := &gathered{barred: 1}
	older, err := redis.String(a.ask("GET", reserved+"newest"))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return nil, err
	}
	g.older = older
	if older == "" {
		g.older = a.key("record")
	}
	record, err := redis.StringMap(a.ask("HGETALL", g.older))
	if err != nil {
		return nil, err
	}
	g.merge(record)
	if err := g.time(a.ask("TIME")); err != nil {
		return nil, err
	}
	for _, other := range n.peers.all {
		p, st := other.pipe.Load(), other.standing.Load()
		if other == n || p == nil || st == nil || ctx.Err() != nil {
			continue
		}
		record, err := redis.StringMap(other.request(p, "HGETALL", st.record))
		if err != nil {
			continue // no answer is no answer: neither admitted nor barred
		}
		if record["nodes"] == "" {
			g.barred++
		} else if record["nodes"] == strconv.Itoa(n.peers.nodes) {
			g.admitted++
			g.merge(record)
		}
		if err := g.time(other.request(p, "TIME")); err != nil {
			continue
		}
	}
	return g, nil
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
	parts, err := redis.Int64s(reply, err)
	if err != nil || len(parts) != 2 {
		return fmt.Errorf("no server time: %w", err)
	}
	g.now = max(g.now, parts[0]*1_000_000+parts[1])
	return nil
}

// run runs a script at the node, by its text: admission is rare.
func (a *admission) run(s *script, keys int, args ...any) (any, error) {
	return a.ask("EVAL", append([]any{s.text, keys}, args...)...)
}

func (a *admission) ask(command string, args ...any) (any, error) {
	return a.node.request(a.pipe, command, args...)
}

// request asks the node something and waits for the answer.
func (n *node) request(p *pipe.Pipe, command string, args ...any) (any, error) {
	answer := make(mailbox, 1)
	flush, _, err := p.Queue(&pipe.Call{Command: command, Args: args, To: answer}, n.opts.clock(), nil)
	if flush {
		p.Flush()
	}
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(n.patience)
	defer timer.Stop()
	select {
	case got := <-answer:
		return got.value, got.err
	case <-timer.C:
		return nil, fmt.Errorf("%s: no answer within %v", n.name, n.patience)
	}
}

// mailbox receives one answer.
type mailbox chan reply

func (m mailbox) Receive(value any, err error) { m <- reply{value, err} }
