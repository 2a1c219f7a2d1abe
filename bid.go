package redlock

import (
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A waiter's attempt that is refused stays at the node for a moment, as its bid: if
// the holder releases the lock meanwhile, the release executes the bid of the first
// in line, and the node tells the waiter the count. That saves a round trip. It is
// what an attempt would be that was long on its way, so its validity counts from when
// the attempt was begun. The keys last no longer than a reservation, so that a waiter
// that does not come, or that too few nodes called, holds nobody up; the lease is
// renewed at once.

const (
	// claim is how long the key of a bid that was executed lasts, and a reservation.
	// internal/protocol/line.lua has it too.
	claim = 500 * time.Millisecond

	// bidLife is how long after it was refused an attempt may be executed.
	bidLife = 150 * time.Millisecond
)

var (
	bidLifeArg any = strconv.FormatInt(bidLife.Milliseconds(), 10)
	noBidArg   any = "0"
)

// bid is an attempt that nodes may execute late.
type bid struct {
	attempt *ballot
	serials []uint64 // of the connections on which nodes could call before it was sent; 0: the node has no bid
	counts  []int64  // with which nodes have granted it late; 0: not. Protected by the waiter's mutex

	before   string         // the owner of the waiter's attempt before
	beforeAt quorum.NodeSet // nodes that may still execute that one
}

// newBid makes the bid of a waiter's attempt.
func (m *Mutex) newBid(attempt *ballot) *bid {
	b := &bid{attempt: attempt, serials: m.client.line.hearing(), counts: make([]int64, len(attempt.Votes))}
	if m.opts.renewal() == 0 || m.opts.maxHold > 0 || m.opts.ttl <= claim {
		clear(b.serials) // who wants a lease that is not renewed wants its full ttl
	}
	return b
}

// life is how long the bid stands at a node, as the script takes it. Where the node
// cannot call, a bid would only hold others up.
func (b *bid) life(node int) any {
	if b.serials[node] == 0 {
		return noBidArg
	}
	return bidLifeArg
}

// stale are the nodes that may still execute it, of those that were asked then and are
// not asked now: the next attempt takes its place at the others.
func (b *bid) stale(now quorum.NodeSet) (at quorum.NodeSet) {
	then := b.attempt.Sent()
	for i, serial := range b.serials {
		if serial != 0 && then.Has(i) && !now.Has(i) {
			at.Add(i)
		}
	}
	return at
}

// Answered implements quorum.Watcher. It undoes the waiter's attempt before this one at a node
// that did not execute this one: the bid of the attempt before is still there, and no one
// would notice its execution. The waiter leaves the queue there, as at nodes that are not
// asked.
func (b *bid) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	if n := v.Node; a.Outcome == quorum.NotSent && b.beforeAt.Has(n.Index) {
		n.Undo(b.attempt.mutex.undoOf(b.before, b.attempt.waiter.ticket))
	}
	return a
}

// Decided implements quorum.Watcher.
func (b *bid) Decided(quorum.Verdict, bool) {}

// granted notes that a node has executed the bid of this owner. It counts if the node
// said so on a connection that stood before the attempt was sent, and the attempt's own
// still stands: then no restart, by which the node may have forgotten a vote, was
// between them. Else the node is ready for the next attempt, as one that called.
func (w *waiter) granted(n *admission.Member, serial uint64, owner, count string) {
	w.mu.Lock()
	b := w.bid
	current := b != nil && b.attempt.Owner == owner
	if current && serial != 0 && serial == b.serials[n.Index] && b.attempt.Votes[n.Index].Right.GoesOn(n.Current()) {
		b.counts[n.Index], _ = strconv.ParseInt(count, 10, 64)
	}
	w.mu.Unlock()
	if current {
		w.ready(n.Index, true)
	}
}

// undoes is told of every node at which an attempt is undone: what it granted late
// before does not count.
func (w *waiter) undoes(owner string, at quorum.NodeSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bid == nil || w.bid.attempt.Owner != owner {
		return
	}
	for i := range w.bid.counts {
		if at.Has(i) {
			w.bid.serials[i], w.bid.counts[i] = 0, 0
		}
	}
}

// won is the last attempt as a ballot that was granted, once a quorum has executed it
// late and enough of its validity is left; else nil.
func (w *waiter) won() *ballot {
	if !w.queues() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.mutex
	if w.bid == nil || w.bid.executed() < m.client.cluster.Need {
		return nil
	}
	attempt := w.bid.attempt
	if left := m.opts.validFor(attempt.Start, claim) - m.opts.clock(); left < max(claim/4, 2*w.trip) {
		return nil
	}
	b := m.newBallot(acquiring, attempt.Owner, nil, attempt.Start)
	b.Rule = quorum.AcquirePatiently
	b.ttl, b.waiter = claim, w
	b.trace.follow(w.trace)
	counts := w.bid.counts
	b.SetAnswers(attempt.Sent(), func(i int) (*admission.VoteRight, quorum.Answer) {
		a := quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.NotSent}
		if counts[i] > 0 {
			a = quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: counts[i]}
		}
		return attempt.Votes[i].Right, a
	})
	return b
}

// executed is the number of nodes that have granted the bid late. Called under the
// waiter's mutex.
func (b *bid) executed() (nodes int) {
	for _, count := range b.counts {
		if count > 0 {
			nodes++
		}
	}
	return nodes
}
