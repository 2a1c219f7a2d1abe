package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
)

// crowd is how many unanswered calls of others on one connection make a caller
// yield to the scheduler before it writes, so that more callers join its flush. One
// attempt is up to five calls.
const crowd = 6

// ballotKind is what a ballot asks for.
type ballotKind struct {
	op      string // for errors
	command string
}

var (
	acquiring = &ballotKind{op: "lock", command: "EVALSHA"}
	claiming  = &ballotKind{op: "lock", command: "EVALSHA"} // acquiring of who queues, without a token
	raising   = &ballotKind{op: "lock", command: "EVALSHA"}
	seizing   = &ballotKind{op: "force unlock", command: "EVAL"}
	renewing  = &ballotKind{op: "extend", command: "EVALSHA"}
	releasing = &ballotKind{op: "unlock", command: "EVALSHA"}
	pinging   = &ballotKind{op: "ping", command: "PING"}
)

// A ballot is one question to all nodes, a script or a few commands, and their votes. Its maker queues
// it, flushes it and awaits the verdict; the readers of the nodes' connections
// count the votes as they come.
type ballot struct {
	kind    *ballotKind
	mutex   *Mutex
	owner   string
	quorum  int
	start   time.Duration // read before anything was queued
	ttl     time.Duration // of the keys that it sets
	told    chan struct{} // told of every change of the verdict
	undoing *ballot       // the attempt's rollback; its maker's own
	heir    *holding      // is told the final verdict, where nobody awaits it
	lease   *holding      // that a renewal is for
	stood   time.Duration // until when that was valid without it
	ticket  string        // of a release: of who waits, or waited
	bid     *bid          // of a waiter's attempt: how it may be executed late
	waiter  *waiter       // whose attempt it is, or its rollback; nil for who does not queue
	trace   *ballotTrace  // nil where no hook is to know

	mu      sync.Mutex // protects what follows; node.mu and the pipes' may be taken under it
	votes   []vote
	few     [5]vote // room for votes: one allocation less
	tally   tally
	verdict verdict
	over    bool    // votes that come now are too late
	sentTo  nodeSet // nodes that did or may yet execute it
}

// vote is one node's part in a ballot, and the receiver of its answer.
type vote struct {
	ballot   *ballot
	node     *node
	call     pipe.Call
	writer   *pipe.Pipe // the ballot's maker must flush it
	owed     bool       // a release: the node may hold the attempt
	kind     *ballotKind
	barred   error     // why the node is not asked
	standing *standing // by which the node votes, in an attempt
	answer   answer    // protected by ballot.mu
}

// nodeSet is a set of nodes by index.
type nodeSet uint64

func (s nodeSet) has(i int) bool { return s&(1<<i) != 0 }

func (s *nodeSet) add(i int) { *s |= 1 << i }

func (s *nodeSet) remove(i int) { *s &^= 1 << i }

func (s nodeSet) len() int { return bits.OnesCount64(uint64(s)) }

// newBallot makes a ballot over all nodes, which begins at start.
func (m *Mutex) newBallot(kind *ballotKind, owner string, args []any, start time.Duration) *ballot {
	nodes := m.client.nodes
	b := &ballot{
		kind:   kind,
		mutex:  m,
		owner:  owner,
		quorum: m.client.quorum,
		start:  start,
		ttl:    m.opts.ttl,
		told:   make(chan struct{}, 1),
		trace:  m.traceBallot(kind, owner),
	}
	if len(nodes) <= len(b.few) {
		b.votes = b.few[:len(nodes)]
	} else {
		b.votes = make([]vote, len(nodes))
	}
	b.tally[pending] = len(b.votes)
	for i, n := range nodes {
		v := &b.votes[i]
		v.ballot, v.node, v.kind = b, n, kind
		v.call = pipe.Call{Command: kind.command, Args: args, To: v}
	}
	return b
}

// queue puts the ballot into the nodes' queues: what is queued for a node later
// is executed there later. It does not block; flush must follow soon.
//
// A release is owed to the nodes in must, which may hold the attempt: they get
// it even when they are stalled, or as a debt. The others get a ballot only
// when they are healthy, and only if all is set.
func (b *ballot) queue(must nodeSet, all bool) (crowded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begins()
	timeout := b.mutex.opts.voteTimeout()
	for i := range b.votes {
		v := &b.votes[i]
		v.owed = must.has(i)
		if v.barred != nil {
			b.note(v, answer{voice: silent, outcome: NotSent, cause: v.barred})
			continue
		}
		if !all && !v.owed {
			b.note(v, answer{voice: silent, outcome: NotSent})
			continue
		}
		p, load, err := v.node.queue(&v.call, v.standing, b.start, timeout, v.owed)
		if err != nil {
			b.note(v, answer{voice: silent, outcome: NotSent, cause: err})
			if v.owed {
				v.node.owe(v.debt())
			}
			continue
		}
		v.writer = p
		b.sentTo.add(i)
		crowded = crowded || load >= crowd
	}
	b.review()
	return crowded
}

// flush writes the queues in which this ballot was the first.
func (b *ballot) flush(crowded bool) {
	if crowded {
		runtime.Gosched()
	}
	for i := range b.votes {
		if p := b.votes[i].writer; p != nil {
			p.Flush()
		}
	}
}

// send queues and flushes.
func (b *ballot) send(must nodeSet, all bool) { b.flush(b.queue(must, all)) }

// Receive takes a node's answer, and repairs what it shows to be broken.
func (v *vote) Receive(reply any, err error) {
	v.node.answered(err)
	if err != nil {
		v.node.heed(err)
		if v.owed && v.stillOwed(err) {
			return
		}
	}
	if v.kind == releasing && reply == int64(keptForYou) && v.ballot.waiter != nil {
		v.ballot.waiter.ready(v.node.index, false)
	}
	a := understand(v.kind, reply, err)
	if err == nil && a.outcome == Unknown {
		v.node.reconnect(a.cause) // replies may be out of step with the calls
	}
	v.hear(a)
}

// hear counts a node's answer.
func (v *vote) hear(a answer) {
	if a.cause == errForgot {
		v.node.forgot(v.standing)
	}
	if v.kind == renewing {
		a.voice = v.ballot.lease.recall(v.node, a.voice)
	}
	v.count(a)
}

// stillOwed makes a debt of a release that was not confirmed. It reports true
// where that is being paid already: the vote counts when it is.
func (v *vote) stillOwed(err error) bool {
	if isCode(err, "WRONGTYPE") {
		return false // not even a key of ours
	}
	d := v.debt()
	if isCode(err, "NOSCRIPT") {
		d.vote = v
	}
	return v.node.owe(d) && d.vote != nil
}

func (v *vote) debt() *debt {
	m := v.ballot.mutex
	return &debt{node: v.node, key: m.key, owner: v.ballot.owner, ticket: v.ballot.ticket, ttl: m.opts.ttl}
}

// count takes one answer into the tally and tells a change of the verdict.
func (v *vote) count(a answer) {
	if heir := v.ballot.take(v, a); heir != nil {
		heir.conclude(v.ballot, v.ballot.current())
	}
}

// take notes a vote. It returns who is to be told the verdict that this one made, if
// anybody is.
func (b *ballot) take(v *vote, a answer) *holding {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || v.answer.voice != pending {
		b.heardLate(v, a)
		if b.overturned(v, a) {
			return b.lease
		}
		return nil
	}
	b.note(v, a)
	b.review()
	if !b.over {
		return nil
	}
	return b.heir
}

// overturned counts an answer that comes after the verdict of a renewal, and tells
// whether it shows what would have been the verdict, had it come in time: that a
// quorum had lost the lease. What was executed after the validity before shows
// nothing: by then keys may have ended that a quorum elsewhere had replaced. Called
// under b.mu.
func (b *ballot) overturned(v *vote, a answer) bool {
	if b.kind != renewing || b.verdict == taken || b.mutex.opts.clock() >= b.stood {
		return false
	}
	b.tally[v.answer.voice]--
	b.tally[a.voice]++
	v.answer = a
	if decideRenew(&b.tally, b.quorum) != taken {
		return false
	}
	b.verdict = taken
	return true
}

// note moves a vote from pending to its answer. Called under b.mu.
func (b *ballot) note(v *vote, a answer) {
	b.tally[pending]--
	b.tally[a.voice]++
	v.answer = a
	b.heard(v, a)
}

// review decides anew. Called under b.mu.
func (b *ballot) review() {
	verdict := b.decide()
	if verdict == b.verdict {
		return
	}
	b.verdict = verdict
	if b.over = verdict >= failed; b.over {
		b.ends()
	}
	select {
	case b.told <- struct{}{}:
	default: // the maker has not read the last message; it will read the newest verdict
	}
}

// await returns the final verdict, at the latest after timeout; then the votes
// still out are unknown. When ctx ends first, its cause is returned. An attempt
// is rolled back as soon as a quorum has become impossible.
func (b *ballot) await(ctx context.Context, timeout time.Duration) (verdict, error) {
	timer := b.endAfter(timeout)
	defer func() { timer.Stop() }()
	for {
		select {
		case <-b.told:
			v := b.current()
			if b.kind == acquiring && (v == failing || v == failed) {
				b.rollback()
			}
			if v >= failed {
				return v, nil
			}
			if v == outvoted {
				timer.Stop()
				spent := b.mutex.opts.clock() - b.start
				timer = b.endAfter(min(max(timeout-spent, 0), spent+grace))
			}
		case <-ctx.Done():
			b.end(errEndedFirst)
			return failed, context.Cause(ctx)
		}
	}
}

// grace is how much longer than the quorum took a waiter awaits the other votes
// before it undoes at those nodes what they may have granted.
const grace = time.Millisecond

func (b *ballot) endAfter(d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { b.end(fmt.Errorf("no answer within %v", d)) })
}

func (b *ballot) current() verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.verdict
}

var errEndedFirst = errors.New("no answer before the call was ended")

// end closes the ballot: votes still out become unknown, for the reason why.
func (b *ballot) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	for i := range b.votes {
		if v := &b.votes[i]; v.answer.voice == pending {
			b.note(v, answer{voice: silent, outcome: Unknown, cause: why})
		}
	}
	b.review()
}
