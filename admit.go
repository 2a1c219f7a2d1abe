package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

const (
	// Everything but the locks' own keys lies under this prefix.
	reserved = "redlock::"

	// formatKey is where the format of all that is told, as docs/protocol.md has it.
	formatKey = reserved + "format"

	// unknownRun stands for the run of a server that does not tell.
	unknownRun = "unknown"
)

// stripes is how many counters a record has. A lock's name is hashed to one of
// them: more stripes, fewer names that count together.
const stripes = 256

const (
	// lookAgain is how soon an admission that could not be finished is tried again.
	lookAgain = 250 * time.Millisecond

	// probeEvery is how often the record of a node that votes is looked at: for the
	// longest ttl that others use, and whether it is still there.
	probeEvery = 10 * time.Second

	// heedful is the least guard where a majority lost the memory that it had: by
	// its end every connected client has looked, and has named the longest ttl that
	// it uses.
	heedful = 2 * probeEvery
)

// standing is what a node knows of its right to vote, on one connection.
type standing struct {
	pipe    *pipe.Pipe    // the connection; on another one it says nothing
	run     string        // the server's run
	record  any           // string: the key of the record, by its present name
	votes   bool          // it is admitted
	longest time.Duration // the longest ttl on its record
	why     error         // why it does not vote
	until   time.Duration // where that is a quarantine: its end, on the client's clock
}

// goesOn tells that the node has voted by the same record since, on one connection.
func (s *standing) goesOn(now *standing) bool {
	return s != nil && now != nil && now.votes && s.pipe == now.pipe && s.record == now.record
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
	said  bool          // that it waits was logged
	heed  time.Duration // the least guard for this loss of memory
	apart time.Duration // until when to look how far the others have counted meanwhile
}

// keyOf is the key of this kind for a run of a server.
func keyOf(kind, run string) string { return reserved + kind + ":" + run }

func (a *admission) key(kind string) string { return keyOf(kind, a.runID) }

// recordsOf is what the keys of a run's records begin with; the name of the
// quarantine before it follows. So a standing that was learnt before the memory was
// lost names a record that is no more.
func recordsOf(run string) string { return keyOf("record", run) + ":" }

// stand notes what the node may do, on this connection.
func (a *admission) stand(st standing) {
	st.pipe, st.run = a.pipe, a.runID
	if st.record == nil {
		st.record = a.key("record")
	}
	a.node.standing.Store(&st)
	a.node.stands(&st)
}

// newAdmission begins the admission of the node over a new connection.
func (n *node) newAdmission(p *pipe.Pipe) *admission {
	return &admission{node: n, pipe: p, runID: cmp.Or(n.last.runID, unknownRun)}
}

// look does what can be done now, and returns when to look again.
func (a *admission) look(ctx context.Context) time.Duration {
	if a.node.opts.noGuard {
		a.stand(standing{votes: true, longest: maxTTL})
		return forever
	}
	return a.step(ctx)
}

// forgot bars the node: a vote by this standing showed that its record is not there,
// or not whole.
// It may even be another server, behind a proxy: the next handshake tells.
func (n *node) forgot(by *standing) {
	if by == nil || !by.votes || n.opts.noGuard {
		return
	}
	n.stray.Store(&by.record)
	if n.standing.CompareAndSwap(by, &standing{pipe: by.pipe, run: by.run, record: by.record, why: errForgot}) {
		n.reconnect(errForgot) // else a look found it out before
	}
}

// step does what can be done now, and returns when to look again.
func (a *admission) step(ctx context.Context) time.Duration {
	n := a.node
	guard := max(n.guard(), a.heed)
	keys := []any{a.key("bar"), a.key("quarantine"), formatKey}
	stray := n.stray.Load()
	if stray != nil {
		keys = append(keys, *stray)
	}
	reply, err := redis.Values(a.run(probeScript, len(keys), append(keys,
		recordsOf(a.runID), n.peers.nodes, n.wanted().Milliseconds(), guard.Milliseconds(), n.opts.chance.name(n.name))...))
	if err == nil {
		n.stray.CompareAndSwap(stray, nil)
	}
	if err == nil && len(reply) == 0 {
		err = errors.New("unexpected reply to the probe: nothing")
	}
	if err != nil {
		if st := n.standing.Load(); st != nil && st.votes && st.pipe == a.pipe {
			return jitter(n.opts.chance, lookAgain, n.name) // it votes by what was known before
		}
		return a.fail(fmt.Errorf("admission: %w", err))
	}
	switch word, _ := redis.String(reply[0], nil); word {
	case "whole":
		next := a.whole(reply)
		a.level(ctx)
		return next
	case "format":
		return a.fail(n.misfit("another version of this library keeps its records there in another format: " +
			"all clients must use versions that share one (docs/protocol.md)"))
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
	var record string
	if _, err := redis.Scan(reply[1:], &record, &nodes, &longest); err != nil {
		return a.fail(fmt.Errorf("admission: %w", err))
	}
	n := a.node
	if int(nodes) != n.peers.nodes {
		return a.fail(n.misfit(fmt.Sprintf("its record is of a cluster of %d nodes, this client has %d: "+
			"every client must be given all of them", nodes, n.peers.nodes)))
	}
	a.stand(standing{record: record, votes: true, longest: time.Duration(longest) * time.Millisecond})
	n.peers.learn(time.Duration(longest) * time.Millisecond)
	n.voted = true
	a.said, a.heed = false, 0
	if n.opts.clock() < a.apart {
		return lookAgain
	}
	return probeEvery
}

// wait bars the node until its quarantine is over.
func (a *admission) wait(left time.Duration) time.Duration {
	n := a.node
	if !a.said {
		a.said, n.worried = true, true
		n.opts.herald.log(slog.LevelWarn, "a node has no record of this run of its server (it is new, or was restarted, or wiped); "+
			"it votes when all leases must have ended that it may have forgotten", "node", n.name, "wait", left)
	}
	a.stand(standing{why: &barredError{left}, until: n.opts.clock() + left})
	return left
}

// fail bars the node for the reason err, for the time being.
func (a *admission) fail(err error) time.Duration {
	a.stand(standing{why: err})
	return jitter(a.node.opts.chance, lookAgain, a.node.name)
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
	case g.byClock && n.voted && guard < heedful:
		// The record of the longest ttl may be lost; somebody may still know it.
		a.heed = heedful
		return time.Millisecond
	}
	record := recordsOf(a.runID) + name
	older, olderBar := g.garbage(a, record)
	args := []any{record, a.key("quarantine"), a.key("bar"), reserved + "newest", older, olderBar, formatKey,
		name, n.peers.nodes, max(g.longest, n.wanted()).Milliseconds()}
	for _, count := range g.counts {
		args = append(args, count)
	}
	switch admitted, err := redis.Int(a.run(admitScript, 7, args...)); {
	case err != nil:
		return a.fail(fmt.Errorf("admission: %w", err))
	case admitted == 0:
		return time.Millisecond // it was wiped again meanwhile: from the beginning
	}
	a.apart = n.opts.clock() + 4*lookAgain
	return a.step(ctx)
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
	over, stop := context.WithTimeout(context.Background(), n.patience)
	defer stop()
	return n.answer(over, n.pose(p, command, args...))
}

// pose asks the node something.
func (n *node) pose(p *pipe.Pipe, command string, args ...any) mailbox {
	answer := make(mailbox, 1)
	flush, _, err := p.Queue(&pipe.Call{Command: command, Args: args, To: answer}, n.opts.clock(), nil)
	if flush {
		p.Flush()
	}
	if err != nil {
		answer <- reply{nil, err}
	}
	return answer
}

// answer waits for what the node was asked. What has come counts, also when time is
// over.
func (n *node) answer(over context.Context, m mailbox) (any, error) {
	select {
	case <-over.Done():
	case got := <-m:
		return got.value, got.err
	}
	select {
	case got := <-m:
		return got.value, got.err
	default:
		return nil, fmt.Errorf("%s: no answer within %v", n.name, n.patience)
	}
}

// mailbox receives one answer.
type mailbox chan reply

func (m mailbox) Receive(value any, err error) { m <- reply{value, err} }
