package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Mutex is the name of a lock and its settings. It has no state: each Lock
// returns a Lease of its own, so that no holder can release another's lock. It
// is safe for concurrent use, and cheap to make anew for every use.
type Mutex struct {
	client *Client
	name   string
	key    string
	opts   *options
	err    error // bad settings, told by Lock and TryLock

	keyArg any // boxed once for all commands, like the others
	ttlArg any // in milliseconds
	stripe any // the counter that its key is hashed to
	least  any // what its count must be, at least

	keyArgs  []any // of commands that take the key alone; only read
	lineArgs []any // the same with the key of its line
}

// Lock acquires the lock. If somebody holds it, it waits in a line with all who
// do, over all clients: first come, first served. It waits also where too few nodes
// answer. ctx bounds the waiting, not the holding: give it a deadline.
//
// Errors: when ctx ends, one that is both its cause and ErrHeld or ErrNoQuorum,
// whichever was met last (a *HeldError names the holder and the place in line);
// ErrHeld at once where ctx is that of a Do or Lease of this very lock;
// ErrNoQuorum at once where so many nodes fail for reasons that waiting cannot
// mend (a wrong password, missing rights, a replica, one server given twice, a
// record of another number of nodes, a key of another type) that there will be no
// quorum; ErrClosed; ErrConfig. After an error nothing of the attempt stays at the
// nodes.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	ctx, call := m.begin(ctx, "lock")
	lease, err := m.lock(ctx)
	call.end(lease, err)
	return lease, err
}

func (m *Mutex) lock(ctx context.Context) (_ *Lease, err error) {
	if m.err != nil {
		return nil, m.err
	}
	w, err := m.client.line.newWaiter(ctx, m)
	if err != nil {
		return nil, m.ended(err, nil)
	}
	defer func() { w.leave(err) }()
	last, err := w.letPass(ctx)
	if err != nil {
		return nil, m.ended(err, last)
	}
	for try := 0; ; try++ {
		lease, r, err := m.attempt(ctx, w)
		m.client.counts.attempt(lease, r, err)
		switch {
		case lease != nil:
			return lease, nil
		case err != nil:
			return nil, m.ended(err, cmp.Or(last, r))
		case r.hopeless:
			return nil, r.err
		}
		last = r
		if err := w.wait(ctx, r, try); err != nil {
			return nil, m.ended(err, last)
		}
	}
}

// tryBallots is how often TryLock asks when the votes were split among callers
// that came at the same instant, or the nodes had to load the scripts first.
const tryBallots = 3

// TryLock acquires the lock without waiting for a holder. It takes at most one
// node timeout, and another one where the nodes' counts differ; where the votes were
// split among callers that came at the same instant, it asks up to three times, and
// takes five node timeouts at most.
//
// Errors: ErrHeld where a quorum answered and one owner may have a quorum (a *HeldError
// names it), or ctx is that of a Do or Lease of this very lock;
// ErrNoQuorum (a *QuorumError has each node's vote); ctx's cause; ErrClosed;
// ErrConfig. After an error nothing of the attempt stays at the nodes.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	ctx, call := m.begin(ctx, "trylock")
	lease, err := m.tryLock(ctx)
	call.end(lease, err)
	return lease, err
}

func (m *Mutex) tryLock(ctx context.Context) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	var last *refusal
	began := m.opts.clock()
	for try := 1; ; try++ {
		lease, r, err := m.attempt(ctx, nil)
		m.client.counts.attempt(lease, r, err)
		switch {
		case lease != nil:
			return lease, nil
		case err != nil:
			return nil, m.ended(err, cmp.Or(last, r))
		case r.registering && m.opts.clock()-began < m.opts.voteTimeout():
			// Nothing was asked yet.
		case !r.again || try >= tryBallots:
			return nil, r.err
		}
		last = r
		pause := r.patience(m.opts.random, try)
		if m.opts.clock()-began+pause > tryBallots*m.opts.voteTimeout() {
			return nil, r.err
		}
		if err := m.client.pause(ctx, pause); err != nil {
			return nil, m.ended(err, last)
		}
	}
}

// attempt is one ballot, of a waiter or of none. It returns a lease, or why it was
// refused; with an error it was ended, by ctx or Close, and the refusal says how
// far it came, if it was begun. Without a lease, what the attempt may have left at
// the nodes is being undone; with an error, a waiter's by its leaving the line.
func (m *Mutex) attempt(ctx context.Context, w *waiter) (*Lease, *refusal, error) {
	if err := m.client.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer m.client.leave()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err := m.nested(ctx); err != nil {
		return nil, nil, err
	}

	b, v, err := m.ask(ctx, w)
	var token int64
	if err == nil && v == quorum.Granted {
		var failure *ballot
		if token, failure, err = m.tokenOf(ctx, b); failure != nil && err == nil {
			b.rollback()
			return nil, failure.refusal(), nil
		}
	}
	if err == nil && v == quorum.Granted {
		// A ctx that ended at the same time wins: who gave up must not be left
		// with a lock that nobody will release.
		if err = context.Cause(ctx); err == nil {
			lease := newLease(m, b, token, w)
			switch {
			case !lease.Valid():
				b.rollback()
				return nil, b.late(), nil
			case m.client.adopt(ctx, lease.h):
				w.got()
				return lease, nil, nil
			}
			err = ErrClosed
		}
	}
	if err == nil || !w.queues() {
		b.rollback()
	}
	return nil, b.refusal(), err
}

// ask is an attempt's ballot and its verdict. Where the nodes have executed a waiter's
// last one meanwhile, that is it, and nothing is sent.
func (m *Mutex) ask(ctx context.Context, w *waiter) (*ballot, quorum.Verdict, error) {
	if b := w.won(); b != nil {
		return b, quorum.Granted, nil
	}
	b := m.newAttempt(m.opts.newOwner(), w)
	b.trace.setCall(ctx)
	w.send(b)
	v, err := b.awaitAttempt(ctx)
	return b, v, err
}

// newAttempt makes the ballot that acquires, over the nodes that may vote. Those
// that refuse a waiter who queues put it in their line.
func (m *Mutex) newAttempt(owner string, w *waiter) *ballot {
	kind := acquiring
	if w.queues() && !m.opts.fencing {
		kind = claiming
	}
	b := m.newBallot(kind, owner, nil, m.opts.clock())
	var ownerArg any = owner
	var plain []plainVote
	var set []any
	var before any = ""
	if w.queues() {
		b.waiter, b.bid, before = w, m.newBid(b), w.owner
		b.Rule, b.Watcher = quorum.AcquirePatiently, b.bid
	} else {
		plain = make([]plainVote, len(b.Votes))
		set = []any{m.keyArg, ownerArg, "PX", m.ttlArg, "NX"}
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Right, v.Skip = v.Node.Right(m.opts.ttl)
		switch {
		case v.Skip != nil:
		case plain != nil:
			m.askPlainly(v, &plain[i], set, w != nil)
		case m.opts.fencing:
			v.Call.Args = []any{protocol.Acquire.SHA, "2", m.keyArg, v.Right.Record, ownerArg, m.ttlArg, m.stripe, m.least,
				w.ticket, m.opts.label, before, b.bid.life(i)}
		default:
			v.Call.Args = []any{protocol.Acquire.SHA, protocol.OneKey, m.keyArg, ownerArg, m.ttlArg, "", m.least,
				w.ticket, m.opts.label, before, b.bid.life(i)}
		}
	}
	if b.waiter != nil {
		b.spareAMinority(m.opts.voteTimeout())
	}
	return b
}

// spareAMinority keeps a waiter's attempt from the nodes where too few can be
// asked: it would hold up those who reach a quorum.
func (b *ballot) spareAMinority(timeout time.Duration) {
	able := 0
	for i := range b.Votes {
		if v := &b.Votes[i]; v.Skip != nil {
			continue
		} else if v.Right.On().Silence(b.Start) <= timeout {
			able++
		} else {
			v.Node.ReportStalled()
		}
	}
	if able >= b.mutex.client.cluster.Need {
		return
	}
	for i := range b.Votes {
		if v := &b.Votes[i]; v.Skip == nil {
			v.Skip = errSpared
		}
	}
}

var errSpared = errors.New("not asked, since too few others can be")

// nested finds a caller that would wait for itself: its ctx is a lease's, of the
// same lock, that is held.
func (m *Mutex) nested(ctx context.Context) error {
	outer, ok := ctx.Value(heldKey{m.client, m.key}).(*Lease)
	if !ok || outer.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w by this very caller: its context is that of a Do or Lease of the same name, "+
		"so waiting would be for itself; use the lease at hand, or a context of its own", ErrHeld)
}

// ended is the error of a call that was ended from outside. last is what it had
// met until then, if anything.
func (m *Mutex) ended(cause error, last *refusal) error {
	e := &waitError{op: acquiring.op, name: m.name, cause: cause}
	if last != nil {
		e.last = last.err
	}
	return e
}

// newOwner makes the value that marks one attempt at the nodes: random, then
// readable. The random part comes first, so that owners that compete compare by
// it.
func (o *options) newOwner() string {
	if o.label == "" {
		return o.random.ID("attempt")
	}
	return o.random.ID("attempt") + "@" + o.label
}
