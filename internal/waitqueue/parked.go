package waitqueue

import (
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A waiter's attempt that is refused stays at the node for a moment, parked: if the holder
// releases the lock meanwhile, the release executes the parked attempt of the first waiter,
// and the node sends the waiter the token. That saves a round trip. It is what an attempt
// would be that was long on its way, so its validity counts from when the attempt was begun.
// The keys last no longer than a reservation, so that a waiter that does not come, or that
// too few nodes woke, holds nobody up; the lease is renewed at once.

// parkFor is how long a node may keep a refused attempt, and execute it.
const parkFor = 150 * time.Millisecond

var (
	parkForArg any = strconv.FormatInt(parkFor.Milliseconds(), 10)
	notParked  any = "0"
)

// Parked is an attempt that nodes may execute late. It watches the attempt's ballot.
type Parked struct {
	waiter  *Waiter
	attempt *quorum.Ballot

	// Written under the waiter's lock, serials only by the waiter's own goroutine, which reads
	// them without it.
	serials []uint64 // of the subscriptions that stood before the attempt was sent; 0: the node must not park it
	tokens  []int64  // with which nodes have executed it; 0: not

	// Set before the attempt is sent.
	before   string         // the owner of the waiter's attempt before
	beforeAt quorum.NodeSet // nodes that may still execute that one
}

// Park makes an attempt one that nodes may execute late.
func (w *Waiter) Park(attempt *quorum.Ballot) *Parked {
	nodes := len(attempt.Votes)
	p := &Parked{waiter: w, attempt: attempt, serials: make([]uint64, nodes), tokens: make([]int64, nodes)}
	if q := w.queue; w.lock.Terms.Parking {
		q.mu.Lock()
		copy(p.serials, q.links.serials)
		q.mu.Unlock()
	}
	return p
}

// ParkFor returns how long a node may keep the attempt, as the script takes it: 0 if the node
// cannot wake the client, since a grant that the client never learns of would only delay
// others. A nil p is not parked.
func (p *Parked) ParkFor(node int) any {
	if p == nil || p.serials[node] == 0 {
		return notParked
	}
	return parkForArg
}

// Answered implements quorum.Watcher. It undoes the waiter's attempt before this one at a node
// that did not execute this one: the attempt before may still be parked there, and the waiter ignores
// messages about it. The waiter leaves the queue there, as at nodes that are not asked.
func (p *Parked) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	switch n := v.Node; {
	case a.Outcome == quorum.NotSent && p.beforeAt.Has(n.Index):
		n.Undo(p.waiter.lock.Undoer.NewUndo(p.before, p.waiter.ticket))
	case a.Place.Position > 0:
		p.waiter.queue.noteHearing(n.Index, !a.Place.Unheard)
	}
	return a
}

// Decided implements quorum.Watcher.
func (p *Parked) Decided(quorum.Verdict, bool) {}

// executed records that a node has executed the parked attempt of this owner. It counts if the
// message came over a subscription that stood before the attempt was sent, and the attempt's
// own connection still stands: then no restart, by which the node may have forgotten a vote,
// was between them. In any case the node is ready for the next attempt, as one that sent a wake-up. A message about
// an older attempt is ignored.
func (w *Waiter) executed(n *admission.Member, serial uint64, owner, token string) {
	count, _ := strconv.ParseInt(token, 10, 64)
	if !n.Believes(count) {
		count = 0
	}
	w.mu.Lock()
	p := w.parked
	current := p != nil && p.attempt.Owner == owner
	if current && n.Index < len(p.serials) && serial != 0 && serial == p.serials[n.Index] &&
		p.attempt.Votes[n.Index].Right.SameRecord(n.Current()) {
		p.tokens[n.Index] = count
	}
	w.mu.Unlock()
	if current {
		w.turn.nodeReady(n.Index, true)
	}
}

// forgetExecuted comes before an attempt is undone at nodes: what they executed late before
// does not count.
func (w *Waiter) forgetExecuted(owner string, at quorum.NodeSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked == nil || w.parked.attempt.Owner != owner {
		return
	}
	for i := range w.parked.tokens {
		if at.Has(i) {
			w.parked.serials[i], w.parked.tokens[i] = 0, 0
		}
	}
}

// Grant is a waiter's attempt that a quorum has executed late.
type Grant struct {
	Attempt  *quorum.Ballot
	Tokens   []int64         // by node; 0 if the node has not executed it
	Recorder quorum.Recorder // of the attempt; nil if there is none
}

// Granted returns the last attempt, once a quorum has executed it late and enough of its
// validity is left: an eighth of a second, and two trips. Else ok is false.
func (w *Waiter) Granted() (g Grant, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.parked
	if p == nil {
		return Grant{}, false
	}
	executed := 0 // by so many nodes
	for _, token := range p.tokens {
		if token > 0 {
			executed++
		}
	}
	if executed < p.attempt.Roster().Need {
		return Grant{}, false
	}
	left := p.attempt.Start + w.lock.Terms.ExecutedValidity - w.queue.cfg.Clock()
	if left < max(protocol.ReservationTTL/4, 2*w.last.took) {
		return Grant{}, false
	}
	return Grant{Attempt: p.attempt, Tokens: slices.Clone(p.tokens), Recorder: w.last.recorder}, true
}
