package lock

import (
	"context"
	"slices"
	"time"

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
	ticket string        // of a waiter that leaves the queue with it, or stays
	lasts  time.Duration // how long a key of the owner may last; 0: the lock's ttl

	restsUntil time.Duration // as Release has it
}

// newRelease makes a release that is not queued yet.
func (l *Lock) newRelease(r Release, recorder quorum.Recorder) *quorum.Ballot {
	b := &release{lock: l, ticket: r.Ticket, lasts: r.Lasts, restsUntil: r.RestsUntil}
	l.begin(&b.Ballot, opUnlock, r.Owner, l.engine.Clock(), quorum.Confirm, l.primitive.Readers().Release)
	b.Undo, b.Recorder = b, recorder
	args := l.primitive.ReleaseArgs(r)
	if r.RestsUntil > 0 {
		args = append([]any{protocol.Rest.SHA}, restArgs(args[1:], r.RestsUntil, l.engine.Clock())...)
	}
	b.SetCommand("EVALSHA", args)
	return &b.Ballot
}

// restArgs returns the arguments of rest.lua, of those of a release of one key. The lock rests until
// the client's clock shows until: the node's clock cannot be compared with that, so the script is
// told what is left now.
func restArgs(args []any, until, now time.Duration) []any {
	const keys = 3
	return slices.Insert(slices.Clone(args), 1+keys, any(milliseconds(max(until-now, 0))))
}

// NewUndo implements quorum.Undoer. The undo of a release after which the lock rests computes what is
// left when it is sent.
func (b *release) NewUndo() *node.Undo {
	u := b.lock.NewUndo(b.Owner, b.ticket)
	u.Lasts = max(u.Lasts, b.lasts)
	if b.restsUntil > 0 {
		args := u.Args
		u.Script, u.Prepare = protocol.Rest, func() []any { return restArgs(args, b.restsUntil, b.lock.engine.Clock()) }
	}
	return u
}

// NewUndo implements waitqueue.Lock. With a ticket the undo leaves the queue, also if the waiter
// is to stay elsewhere: a waiter that still waits rejoins with its next attempt.
func (l *Lock) NewUndo(owner, ticket string) *node.Undo {
	u := &node.Undo{Owner: owner, Script: l.script, Args: l.primitive.UndoArgs(owner, ticket), Lasts: l.terms.Lease.TTL}
	if ticket != "" {
		u.Lasts = max(u.Lasts, protocol.QueueTTL)
	}
	return u
}

// BeginRelease implements lease.Lock.
func (l *Lock) BeginRelease(ctx context.Context, held *lease.Lease) *quorum.Ballot {
	if held.Wanted != nil {
		l.engine.Queue().Holders.Forget(held.Owner)
	}
	if kept, dropped, handed := held.Kept(); handed {
		leaveKept(l, held, kept, dropped)
		return nil
	}
	if _, at := held.Passing(); at != 0 { // the release must find the owner's keys where a hand-off was executed
		l.TakeBack(held, at)
		l.releasePassed(held, at)
	}
	r := Release{Owner: held.Owner, RestsUntil: held.RestsUntil(), Lasts: held.KeysLast()}
	w, queued := held.Seat.(*waitqueue.Waiter)
	if queued {
		r.Ticket = w.Retire()
	}
	switch {
	case !held.KeepsKeys():
	case !queued:
		return nil
	default:
		r.Owner, r.RestsUntil = protocol.Nobody+held.Owner, 0 // it only leaves the queues
	}
	return l.newRelease(r, l.engine.Observer.Recorder(ctx, opUnlock, l.Name, held.Owner, nil))
}

// Released implements lease.Lock.
func (l *Lock) Released(held *lease.Lease, b *quorum.Ballot) {
	e := l.engine
	switch {
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Handed }):
		now := e.Clock()
		e.handover.begin(l.keys, now, now-b.Start)
	case held.Seat == nil: // no waiter of this client need stand in the queue
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Count == quorum.Yes && !a.Handed && !a.Taken }):
		e.Queue().Freed(l.keys, b.Start)
	}
}

// BeginRollback implements waitqueue.Lock.
func (l *Lock) BeginRollback(owner, ticket string, stay bool, after quorum.Recorder) *quorum.Ballot {
	return l.newRelease(Release{Owner: owner, Ticket: ticket, Stay: stay},
		l.engine.Observer.Recorder(context.Background(), opRollback, l.Name, owner, after))
}

// BeginRenewal implements lease.Lock.
func (l *Lock) BeginRenewal(ctx context.Context, b *quorum.Ballot, held *lease.Lease, ttl time.Duration, longer bool) {
	l.begin(b, opExtend, held.Owner, l.engine.Clock(), quorum.Renew, l.primitive.Readers().Renew)
	b.Recorder = l.engine.Observer.Recorder(ctx, opExtend, l.Name, held.Owner, nil)
	b.SetCommand("EVALSHA", nil)
	var owner, ticket, ttlArg any = held.Owner, "", l.terms.ttlArg // boxed once
	if ttl != l.terms.Lease.TTL {
		ttlArg = milliseconds(ttl)
	}
	if w, queued := held.Seat.(*waitqueue.Waiter); queued && (l.shared || l.terms.Wanted) {
		ticket = w.Ticket()
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		if v.Right = v.Node.Current(); longer {
			v.Right, v.Skip = rightToExtend(v.Node, ttl)
		} else if v.Right == nil {
			v.Skip = v.Node.Why()
		}
		if v.Skip == nil {
			l.primitive.PrepareRenewal(v, owner, ticket, ttlArg)
		}
	}
}
