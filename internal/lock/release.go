package lock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// release is a ballot that gives back a lease or an attempt, and makes its undos.
type release struct {
	quorum.Ballot
	lock   *Lock
	ticket string        // of a waiter that leaves the queue with it, or stays
	lasts  time.Duration // how long a key of the owner may last; 0: the lock's ttl

	restsUntil time.Duration // as Release has it
}

// newRelease makes a release of an owner that is not queued yet. It begins at the instant at.
func (l *Lock) newRelease(owner string, at time.Duration, r Release, recorder quorum.Recorder) *quorum.Ballot {
	b := l.engine.spares.release()
	b.lock, b.ticket, b.lasts, b.restsUntil = l, r.Ticket, r.Lasts, r.RestsUntil
	l.begin(&b.Ballot, opUnlock, owner, at, quorum.Confirm, releasing)
	if r.Owner == nil {
		r.Owner = owner
	}
	b.Undo, b.Recorder, b.Spare = b, recorder, b
	args := l.kind.Release(&l.terms.settings, r.ReleaseCall)
	if r.RestsUntil > 0 {
		args = b.resting(args)
	}
	b.SetCommand("EVALSHA", args)
	return &b.Ballot
}

// resting returns the arguments of a release after which the lock rests. It rests until the client's clock shows restsUntil: the
// node's clock cannot be compared with that, so the script is told what is left now.
func (b *release) resting(args []any) []any {
	return protocol.RestAfter(args, b.restsUntil-b.lock.engine.Clock())
}

// NewUndo implements quorum.Undoer. The undo of a release after which the lock rests computes what is
// left when it is sent.
func (b *release) NewUndo() *node.Undo {
	u := b.lock.newLastingUndo(b.Owner, b.ticket, b.lasts)
	if b.restsUntil > 0 {
		args := b.lock.undoArgs(b.Owner, b.ticket)
		u.Script, u.Prepare = protocol.Rest, func() []any { return b.resting(args)[1:] }
	}
	return u
}

// NewUndo implements waitqueue.Undoer. With a ticket the undo leaves the queue, also if the waiter
// is to stay elsewhere: a waiter that still waits rejoins with its next attempt.
func (l *Lock) NewUndo(owner, ticket string) *node.Undo {
	u := &node.Undo{Owner: owner, Script: l.script, Args: l.undoArgs(owner, ticket)[1:], Lasts: l.terms.Lease.TTL}
	if ticket != "" {
		u.Lasts = max(u.Lasts, protocol.QueueTTL)
	}
	return u
}

func (l *Lock) undoArgs(owner, ticket string) []any {
	return l.kind.Release(&l.terms.settings, protocol.ReleaseCall{Owner: owner, Ticket: ticket, Undo: true})
}

// newLastingUndo is NewUndo where a key of the owner may last for so long.
func (l *Lock) newLastingUndo(owner, ticket string, lasts time.Duration) *node.Undo {
	u := l.NewUndo(owner, ticket)
	u.Lasts = max(u.Lasts, lasts)
	return u
}

// BeginRelease implements lease.Lock.
func (l *Lock) BeginRelease(ctx context.Context, g *lease.Grant, e lease.Ending) *quorum.Ballot {
	if g.Wanted != nil {
		l.engine.Board().Wanted.Forget(g.Owner)
	}
	if e.Transferred {
		leaveKept(l, g, e)
		return nil
	}
	if e.Passed.At != 0 { // the release must find the owner's keys where a transfer was executed
		l.TakeBack(g.Owner, e.Passed)
		l.releasePassed(e.Passed, e.Passed.At)
	}
	owner, r := g.Owner, Release{ReleaseCall: protocol.ReleaseCall{Owner: g.OwnerArg}, RestsUntil: e.RestsUntil, Lasts: e.KeysLast}
	if g.Seat != nil {
		r.Ticket = g.Seat.Retire()
	}
	switch {
	case !e.KeepsKeys:
	case g.Seat == nil:
		return nil
	default:
		owner, r.Owner, r.RestsUntil = protocol.Nobody+g.Owner, nil, 0 // it only leaves the queues
	}
	return l.newRelease(owner, e.At, r, l.engine.Observer.Recorder(ctx, opUnlock, l.Name, g.Owner, nil))
}

// Released implements lease.Lock.
func (l *Lock) Released(g *lease.Grant, b *quorum.Ballot) {
	e := l.engine
	switch {
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Kind == protocol.HandedOff }):
		now := e.Clock()
		e.handoff.begin(l.keys, now, now-b.Start)
	case g.Seat == nil: // no waiter of this client need stand in the queue
	case b.HasQuorum(func(a *quorum.Answer) bool { return a.Kind == protocol.Done || a.Kind == protocol.Kept }):
		e.Queue().Freed(l.keys, b.Start)
	}
}

// NewRollback makes a ballot that undoes a waiter's attempt, and is not sent yet. It follows the attempt with the
// recorder after. The waiter keeps its position in the queues if stay is set; else it leaves them.
func (l *Lock) NewRollback(owner, ticket string, stay bool, after quorum.Recorder) *quorum.Ballot {
	return l.newRelease(owner, l.engine.Clock(), Release{ReleaseCall: protocol.ReleaseCall{Ticket: ticket, Stay: stay, Flaps: stay && l.engine.Queue().Flaps() != 0}},
		l.engine.Observer.Recorder(context.Background(), opRollback, l.Name, owner, after))
}

// BeginRenewal implements lease.Lock.
func (l *Lock) BeginRenewal(ctx context.Context, at time.Duration, b *quorum.Ballot, g *lease.Grant, ttl time.Duration, longer bool) {
	b.Under(l.engine.Cluster.Roster.Load().For(g.List))
	l.begin(b, opExtend, g.Owner, at, quorum.Renew, renewing)
	b.Recorder = l.engine.Observer.Recorder(ctx, opExtend, l.Name, g.Owner, nil)
	b.SetCommand("EVALSHA", nil)
	call := protocol.RenewalCall{Owner: g.Owner, Ticket: "", TTL: l.terms.settings.TTL, List: ""}
	if list := b.List(); list != nil {
		call.List = list.Arg
	}
	if ttl != l.terms.Lease.TTL {
		call.TTL = protocol.Milliseconds(ttl)
	}
	if g.Seat != nil && (l.shared || l.terms.Wanted) {
		call.Ticket = g.Seat.Ticket()
	}
	for i := range b.Votes {
		v := &b.Votes[i]
		if longer {
			v.Right, v.Skip = rightToExtend(v.Node, ttl)
		} else {
			v.Right, v.Skip = v.Node.RightToRenew(ttl)
		}
		if v.Skip == nil {
			v.Call.Args = l.kind.Renew(&l.terms.settings, call, v.Right.Record)
		}
	}
}
