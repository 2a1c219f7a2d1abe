package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Transferred is a lease that another process transferred.
type Transferred struct {
	Value   string        // of its keys since then
	Left    time.Duration // no more than that was left of the validity
	Records []string      // of the nodes that keep the keys
}

var (
	// ErrUnknownCluster is why a lease cannot be resumed: none of the nodes keeps it.
	ErrUnknownCluster = errors.New("none of the nodes keeps the lease: it was transferred in another cluster, or all servers have restarted since")

	errNotKept = errors.New("it does not keep the lease: it did not answer when the lease was transferred, or it has restarted since")
)

// resumption is a call of Resume. All of its ballots have one owner, so a node that has executed one of them
// counts for the next.
type resumption struct {
	*Exclusive
	alert // with its owner
	from  *Transferred
	began time.Duration
	sent  quorum.NodeSet // nodes that were asked
}

// Resume takes over a lease that was transferred, as a lease of a new owner. It tries again while that may
// help: until a quorum of the nodes cannot give it away any more, and no longer than what was left of it. The
// Failure's Cause is ErrUnknownCluster if nothing was sent, or what ended the call from outside; without
// one the lease is lost. When the call fails, what is left of the lease is released, unless nothing was sent.
func (x *Exclusive) Resume(ctx context.Context, from *Transferred) (held *lease.Lease, failure *Failure) {
	began := x.engine.Clock()
	if x.terms.Wanted {
		if err := x.engine.Queue().Listen(ctx); err != nil {
			return nil, &Failure{Cause: err}
		}
	}
	if err := x.engine.Life.Enter(ctx); err != nil {
		return nil, &Failure{Cause: err}
	}
	defer x.engine.Life.Leave() // Close waits until a call that failed has given back what it got
	r := &resumption{Exclusive: x, alert: newAlert(&x.Lock), from: from, began: began}
	defer func() {
		if held == nil {
			r.forget(x.engine)
		}
	}()
	for try := 0; ; try++ {
		held, votes, err := r.try(ctx)
		switch {
		case held != nil:
			return held, nil
		case errors.Is(err, ErrUnknownCluster):
			return nil, &Failure{Cause: err}
		case err == nil && r.isLost(votes):
			r.giveBack()
			return nil, &Failure{Refusal: &Refusal{Votes: votes}}
		}
		if err == nil {
			err = x.engine.Life.Pause(ctx, new(Refusal).backoff(x.terms.Random, "resuming", min(try, 5), 0))
		}
		if err != nil {
			if r.sent != 0 {
				r.giveBack()
			}
			return nil, &Failure{Cause: err, Refusal: &Refusal{Votes: votes}}
		}
	}
}

// try makes one attempt to get the lease. It returns the lease, the votes of a ballot that failed, or what
// ended the call.
func (r *resumption) try(ctx context.Context) (*lease.Lease, *quorum.Failure, error) {
	e := r.engine
	if err := life.EndOf(ctx); err != nil {
		return nil, nil, err
	}
	a := r.newBallot(ctx)
	if r.sent == 0 && r.isUnknown(a) { // after a try before it is lost, and given back
		return nil, nil, ErrUnknownCluster
	}
	a.Send(0, true)
	r.sent |= a.Sent()
	v, err := a.Await(ctx, r.terms.Lease.NodeTimeout, nil)
	if err != nil || v != quorum.Granted {
		return nil, quorum.FailureOf(&a.Ballot), err
	}
	token, failed, err := r.tokenOf(ctx, &a.Ballot)
	if failed != nil {
		return nil, quorum.FailureOf(failed), err
	}
	if err := life.EndOf(ctx); err != nil { // a caller that gave up must not be left with a lock
		return nil, nil, err
	}
	lacking := lackingKeys(a)
	held := e.Renewer.New(a.lock, lease.Grant{Name: r.Name, Owner: r.owner, Token: token, Begun: a.Start, Validity: a.validity, MayHold: r.sent,
		Wanted: r.signal, List: a.List()})
	if held.Remaining() <= 0 {
		return nil, lateRefusal(&a.Ballot).Votes, nil
	}
	if lacking != 0 {
		r.undoOld(lacking) // ahead of the first renewal, which puts the new keys there
		held.RenewAtOnce()
	}
	if !held.Start(ctx) {
		return nil, nil, life.ErrClosed
	}
	e.Observer.Attempted(nil)
	return held, nil, nil
}

// newBallot makes the ballot that asks the nodes that keep the lease for it.
func (r *resumption) newBallot(ctx context.Context) *Attempt {
	l := &r.Lock
	a := &Attempt{lock: l, validity: l.terms.Lease.Validity}
	l.begin(&a.Ballot, opResume, r.owner, l.engine.Clock(), quorum.Confirm, resuming)
	a.Recorder = l.engine.Observer.Recorder(ctx, opResume, l.Name, r.owner, nil)
	a.SetCommand("EVAL", nil)
	a.AskVoters(l.terms.Lease.TTL)
	for i := range a.Votes {
		v := &a.Votes[i]
		if v.Skip != nil {
			continue
		}
		if memory := protocol.MemoryOf(recordOf(v)); !slices.ContainsFunc(r.from.Records, func(record string) bool { return protocol.MemoryOf(record) == memory }) {
			v.Skip = errNotKept
			continue
		}
		call := protocol.ResumeCall{Keys: &r.wire, Record: v.Right.Record, Value: r.from.Value, Owner: r.owner}
		v.Call.Args = call.Eval(&l.terms.settings)
	}
	return a
}

// isUnknown reports whether all nodes could vote, and none keeps the lease.
func (r *resumption) isUnknown(a *Attempt) bool {
	for i := range a.Votes {
		if !errors.Is(a.Votes[i].Skip, errNotKept) {
			return false
		}
	}
	return true
}

// isLost reports whether a quorum cannot give the lease away any more.
func (r *resumption) isLost(votes *quorum.Failure) bool {
	if r.engine.Clock()-r.began >= r.from.Left {
		return true
	}
	never := 0
	for i := range votes.Answers {
		a := &votes.Answers[i]
		if a.Count == quorum.No || errors.Is(a.Cause, errNotKept) {
			never++
		}
	}
	return len(votes.Answers)-never < votes.Need
}

// giveBack releases what the call has got, and what is left of the old lease. The new owner of a call
// that was faster has another value, which no release of these takes.
func (r *resumption) giveBack() {
	b := r.newRelease(r.owner, r.engine.Clock(), Release{}, r.engine.Observer.Recorder(context.Background(), opRollback, r.Name, r.owner, nil))
	b.Send(r.sent, false)
	r.undoOld(1<<len(r.engine.Cluster.Nodes()) - 1)
}

// lackingKeys returns the nodes that are not known to have given the lease its new owner.
func lackingKeys(a *Attempt) (at quorum.NodeSet) {
	for i, answer := range a.Answers() {
		if answer.Count != quorum.Yes {
			at.Add(i)
		}
	}
	return at
}

// undoOld releases the old lease at nodes: those that have not given it its new owner drop its key.
func (r *resumption) undoOld(at quorum.NodeSet) {
	r.engine.undoAt(at, r.newOldUndo)
}

// newOldUndo returns what releases the old lease at a node. The text does not say how long its keys last: as long as
// its validity, the drift, and two node timeouts, unless the old lease was prolonged by an ExtendTo.
func (r *resumption) newOldUndo() *node.Undo {
	u := r.NewUndo(r.from.Value, "")
	u.Lasts = max(u.Lasts, 2*r.from.Left)
	return u
}
