package lock

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

const (
	// firstBackoff and maxBackoff are the longest pauses between attempts on a lock that is
	// held, or at nodes that do not answer: the first, doubled with every try up to the
	// maximum.
	firstBackoff = 2 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
)

// Refusal is why an attempt was refused, and what to do next.
type Refusal struct {
	Held      bool            // another owner has the lock, or may have it
	Holder    string          // that owner; "" while the lock is reserved for a waiter, or readers hold it
	Shared    bool            // readers hold it
	Permits   bool            // too few of a semaphore's permits are free
	HeldFor   time.Duration   // how long ago the holder got it, by the holder's wall clock and this client's; 0: not known
	Resting   bool            // the holder's lease has ended: a node shows that the lock rests
	Remaining time.Duration   // the holder's time left; protocol.Endless, or 0: unknown
	Votes     *quorum.Failure // nil if nothing was asked
	Standing  waitqueue.Standing

	hopeless    bool          // waiting cannot mend it
	reached     bool          // a quorum answered
	again       bool          // perhaps nobody holds the lock: ask again, in the order of the ranks
	registering bool          // nodes put its ttl on record first, or were being admitted, and were not asked
	rank        int           // this attempt's place among those that split the votes
	unasked     bool          // another caller has asked in its place, while a person must act
	took        time.Duration // how long the ballot took
}

// Failure is why a call got no lock.
type Failure struct {
	Cause   error    // what ended the call from outside: ctx's cause or life.ErrClosed; nil if nothing did
	Refusal *Refusal // the last one; nil if no attempt was over
	Err     error    // for users; the root makes it, once
}

// refusalOf returns why a ballot failed; b must be closed, and w is nil if no waiter asked.
// Another owner holds the lock only where it may have a quorum: the nodes that showed it, and
// those that showed nothing. Permits are held where so many slots have such an owner each that too
// few are left: docs/safety.md, Permits.
func (c *call) refusalOf(b *quorum.Ballot, w *waitqueue.Waiter) *Refusal {
	need := c.engine.Cluster.Need()
	c.trim(b)
	votes := quorum.FailureOf(b)
	r := &Refusal{Votes: votes, hopeless: votes.IsHopeless(), took: votes.Elapsed}

	holder, nodes := b.Leader()
	tally := b.Tally()
	answered := tally.Nodes[quorum.Yes] + tally.Nodes[quorum.No]
	r.reached = answered >= need
	if w != nil {
		r.Standing = waitqueue.StandingOf(b, need, r.took)
		w.TakeOutStrays(b)
	}
	switch {
	case answered < need:
		registering := votes.Count(isRegistering)
		r.again = answered+votes.Count(quorum.LacksScript)+registering >= need
		r.registering = r.again && registering > 0
	case nodes+tally.Nodes[quorum.NoAnswer] >= need:
		r.Held, r.Remaining = true, longest(b, holder)
		r.Shared, r.Permits = holder == protocol.Shared, holder == protocol.Permits
		if protocol.IsHolder(holder) {
			r.Holder, r.HeldFor = holder, c.engine.heldFor(holder)
			r.Resting = votes.Count(func(a *quorum.Answer) bool { return a.Resting && a.Holder == holder }) > 0
		}
		// The other owner may also be a caller that came at the same instant, and has no quorum either. If
		// both gave up, nobody would get the lock. An attempt without a vote leaves it to those that have one.
		if r.again = nodes < need && tally.Nodes[quorum.Yes] > 0 && !r.Resting; r.again {
			r.rank = rank(b, c.shared)
		}
	default:
		r.again = true
		r.rank = rank(b, c.shared)
	}
	return r
}

// heldFor returns how long ago an owner got the lock, as far as the wall clocks agree; 0 if that is not known.
func (e *Engine) heldFor(owner string) time.Duration {
	since := protocol.SinceOf(owner)
	if since.IsZero() {
		return 0
	}
	return max(e.Wall().Sub(since), 0)
}

// unaskedRefusal returns the refusal of a call that has not asked the nodes, for the reason why: each node's own reason
// comes first.
func (c *call) unaskedRefusal(why error) *Refusal {
	e := c.engine
	votes := &quorum.Failure{Op: opLock, Need: e.Cluster.Need(), Elapsed: c.terms.Lease.NodeTimeout, Nodes: e.Cluster.Nodes(),
		Answers: make([]quorum.Answer, len(e.Cluster.Nodes()))}
	for i, n := range e.Cluster.Nodes() {
		_, cause := n.Right(c.terms.Lease.TTL)
		votes.Answers[i] = quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.NotSent, Cause: cmp.Or(cause, why)}
	}
	unfit := errors.Is(why, limiter.ErrUnfit)
	return &Refusal{Votes: votes, hopeless: unfit || votes.IsHopeless(), unasked: unfit}
}

// lateRefusal returns the refusal of a ballot that was granted when no validity was left.
func lateRefusal(b *quorum.Ballot) *Refusal {
	votes := quorum.FailureOf(b)
	votes.Late = true
	return &Refusal{Votes: votes, took: votes.Elapsed}
}

// isRegistering reports whether the node put the ttl on record first, or was being admitted; a
// repeated ballot finds that done.
func isRegistering(a *quorum.Answer) bool {
	return errors.Is(a.Cause, admission.ErrRegistering) || errors.Is(a.Cause, admission.ErrAdmitting)
}

// longest returns the longest ttl that a holder has left at any node; protocol.Endless if its
// key has none, 0 if no node reported it.
func longest(b *quorum.Ballot, holder string) (longest time.Duration) {
	for _, a := range b.Answers() {
		switch {
		case a.Holder != holder || longest == protocol.Endless:
		case a.Remaining == protocol.Endless:
			longest = protocol.Endless
		default:
			longest = max(longest, a.Remaining)
		}
	}
	return longest
}

// rank orders the attempts that split the votes: by their owners, which are random, so that
// each of them comes to the same order. An attempt without a vote stands behind all that were
// seen, for they do not see it. Readers stand behind the writers, who cannot tell them apart.
func rank(b *quorum.Ballot, reader bool) (ahead int) {
	last := reader || b.Tally().Nodes[quorum.Yes] == 0
	for _, rival := range b.Rivals() {
		if last || rival != protocol.Shared && strings.Compare(rival, b.Owner) < 0 {
			ahead++
		}
	}
	return ahead
}

// backoff returns how long to wait before the next attempt. Where the votes were split the
// callers go one after the other, two round trips apart: time for the one ahead to ask, and
// for the others to have given their nodes back. Where the lock is held it is a random time,
// longer with each try, but not much longer than the holder has left. A zero Refusal gives a random time, longer with
// each try. In an outage the time grows with the outage, too: those who wait for their turn make their first try late.
// purpose names the random draw.
func (r *Refusal) backoff(random system.Random, purpose string, try int, outage time.Duration) time.Duration {
	if r.again && !r.registering {
		return time.Duration(r.rank)*2*r.took + random.Below(max(r.took, time.Microsecond), "splitting")
	}
	limit := min(max(firstBackoff<<min(try, 10), outage/4), maxBackoff)
	if r.Remaining > 0 {
		limit = min(limit, r.Remaining+time.Millisecond)
	}
	return random.Below(limit, purpose) + 1
}

// trim asks nodes to cut the keys that refused an attempt and last longer than any lease relies on them: the server's
// clock was set back. It does not wait for the answers. docs/safety.md (Clocks that are set back) has the argument.
func (l *Lock) trim(b *quorum.Ballot) {
	type place struct {
		node  *admission.Member
		right *admission.VoteRight
	}
	var at []place
	for i, a := range b.Answers() {
		v := &b.Votes[i]
		if a.Count != quorum.No || v.Right == nil {
			continue
		}
		most := v.Right.Longest
		if protocol.IsReservation(a.Holder) && len(l.keys) == 1 { // of several, the remaining time may be another key's
			most = protocol.LongestReservation
		}
		if a.Remaining > most {
			at = append(at, place{v.Node, v.Right})
		}
	}
	for _, p := range at {
		p.node.Ask(p.right.On(), "EVAL", p.right.Trim(l.heldKeys()).Eval()...)
	}
}
