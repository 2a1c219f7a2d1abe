package redlock

import (
	"strconv"
	"time"
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
	// scripts/line.lua has it too.
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
}

// newBid makes the bid of a waiter's attempt.
func (m *Mutex) newBid(attempt *ballot) *bid {
	b := &bid{attempt, m.client.line.hearing(), make([]int64, len(attempt.votes))}
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
func (b *bid) stale(now nodeSet) (at nodeSet) {
	then := b.attempt.sent()
	for i, serial := range b.serials {
		if serial != 0 && then.has(i) && !now.has(i) {
			at.add(i)
		}
	}
	return at
}

// granted notes that a node has executed the bid of this owner. It counts if the node
// said so on a connection that stood before the attempt was sent, and the attempt's own
// still stands: then no restart, by which the node may have forgotten a vote, was
// between them. Else the node is ready for the next attempt, as one that called.
func (w *waiter) granted(n *node, serial uint64, owner, count string) {
	w.mu.Lock()
	b := w.bid
	current := b != nil && b.attempt.owner == owner
	if current && serial != 0 && serial == b.serials[n.index] && b.attempt.votes[n.index].standing.goesOn(n.standing.Load()) {
		b.counts[n.index], _ = strconv.ParseInt(count, 10, 64)
	}
	w.mu.Unlock()
	if current {
		w.ready(n.index, true)
	}
}

// undoes is told of every node at which an attempt is undone: what it granted late
// before does not count.
func (w *waiter) undoes(owner string, at nodeSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bid == nil || w.bid.attempt.owner != owner {
		return
	}
	for i := range w.bid.counts {
		if at.has(i) {
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
	if w.bid == nil || w.bid.executed() < m.client.quorum {
		return nil
	}
	attempt := w.bid.attempt
	if left := m.opts.validFor(attempt.start, claim) - m.opts.clock(); left < max(claim/4, 2*w.trip) {
		return nil
	}
	b := m.newBallot(acquiring, attempt.owner, nil, attempt.start)
	b.ttl, b.waiter, b.sentTo = claim, w, attempt.sent()
	b.follows(w.trace)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begins()
	for i, count := range w.bid.counts {
		v := &b.votes[i]
		v.standing = attempt.votes[i].standing
		if count > 0 {
			b.note(v, answer{voice: mine, outcome: Granted, token: count})
		} else {
			b.note(v, answer{voice: silent, outcome: NotSent})
		}
	}
	b.review()
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
