package lock

import (
	"context"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// release is a ballot that gives back a lease or an attempt, and makes its undos.
type release struct {
	quorum.Ballot
	lock   *Lock
	ticket string // of a waiter that leaves the queue with it, or stays
}

// newRelease makes a release that is not queued yet.
func (l *Lock) newRelease(r Release, recorder quorum.Recorder) *quorum.Ballot {
	b := &release{lock: l, ticket: r.Ticket}
	l.begin(&b.Ballot, opUnlock, r.Owner, l.engine.Clock(), quorum.Confirm, l.primitive.Readers().Release)
	b.Undo, b.Recorder = b, recorder
	b.SetCommand("EVALSHA", l.primitive.ReleaseArgs(r))
	return &b.Ballot
}

// NewUndo implements quorum.Undoer.
func (b *release) NewUndo() *node.Undo { return b.lock.NewUndo(b.Owner, b.ticket) }

// NewUndo implements waitqueue.Lock. With a ticket the undo leaves the queue, also if the waiter
// is to stay elsewhere: a waiter that still waits rejoins with its next attempt.
func (l *Lock) NewUndo(owner, ticket string) *node.Undo {
	u := &node.Undo{Owner: owner, Script: protocol.Release, Args: l.primitive.UndoArgs(owner, ticket), Lasts: l.terms.Lease.TTL}
	if ticket != "" {
		u.Lasts = max(u.Lasts, protocol.QueueTTL)
	}
	return u
}

// BeginRelease implements lease.Lock.
func (l *Lock) BeginRelease(ctx context.Context, held *lease.Lease) *quorum.Ballot {
	r := Release{Owner: held.Owner}
	if w, queued := held.Seat.(*waitqueue.Waiter); queued {
		r.Ticket = w.Retire()
	}
	return l.newRelease(r, l.engine.Observer.Recorder(ctx, opUnlock, l.Name, held.Owner, nil))
}

// Released implements lease.Lock.
func (l *Lock) Released(held *lease.Lease, b *quorum.Ballot) {
	e := l.engine
	switch {
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Handed }):
		now := e.Clock()
		e.handover.begin(l.key, now, now-b.Start)
	case held.Seat == nil: // no waiter of this client need stand in the queue
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.Yes && !a.Handed && !a.Shared }):
		e.Queue().Freed(l.key, b.Start)
	}
}

// BeginRollback implements waitqueue.Lock.
func (l *Lock) BeginRollback(owner, ticket string, stay bool, after quorum.Recorder) *quorum.Ballot {
	return l.newRelease(Release{Owner: owner, Ticket: ticket, Stay: stay},
		l.engine.Observer.Recorder(context.Background(), opRollback, l.Name, owner, after))
}

// BeginRenewal implements lease.Lock.
func (l *Lock) BeginRenewal(ctx context.Context, b *quorum.Ballot, held *lease.Lease) {
	l.begin(b, opExtend, held.Owner, l.engine.Clock(), quorum.Renew, l.primitive.Readers().Renew)
	b.Recorder = l.engine.Observer.Recorder(ctx, opExtend, l.Name, held.Owner, nil)
	b.SetCommand("EVALSHA", nil)
	var owner, ticket any = held.Owner, "" // boxed once
	if w, queued := held.Seat.(*waitqueue.Waiter); queued && l.shared {
		ticket = w.Ticket()
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		if v.Right = v.Node.Current(); v.Right == nil {
			v.Skip = v.Node.Why()
			continue
		}
		l.primitive.PrepareRenewal(v, owner, ticket)
	}
}
