package lock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Found is what a node had when the lock was seized there.
type Found struct {
	Node      int
	Holder    string        // as Inspection has it
	Remaining time.Duration // protocol.Endless if the key has no end
	Count     int64         // of grants
}

// Target is what may be replaced at a node.
type Target struct {
	Values       []any         // of the lock's key, which other nodes showed too
	ReadersUntil time.Duration // until then, by the server's clock, readers may be; 0: they may not
}

// Seize makes a lease of a lock that may be held, at the nodes that have what target returns
// for them. It returns what it found at the nodes that took part. ctx matters no more once the
// lock is seized.
func (x *Exclusive) Seize(ctx context.Context, target func(node int) Target) (*lease.Lease, []Found, *Failure) {
	a := x.newSeizure(target)
	a.Send(0, true)
	v, err := a.Await(ctx, x.terms.Lease.NodeTimeout, nil)
	var token int64
	failed := &a.Ballot
	if err == nil && v == quorum.Granted {
		token, failed, err = x.tokenOf(ctx, &a.Ballot)
	}
	switch {
	case err != nil:
		a.rollBack()
		return nil, nil, &Failure{Cause: err}
	case failed != nil:
		a.rollBack()
		return nil, nil, &Failure{Refusal: &Refusal{Votes: quorum.FailureOf(failed)}}
	}
	found := foundBy(&a.Ballot)
	held := a.newLease(token)
	if !held.Start(ctx) {
		a.rollBack()
		return nil, found, &Failure{Cause: life.ErrClosed}
	}
	return held, found, nil
}

// newSeizure makes the ballot that seizes the lock.
func (x *Exclusive) newSeizure(target func(node int) Target) *Attempt {
	owner := protocol.Owner(x.terms.Random.ID("attempt"), x.engine.Wall(), "", x.terms.Label)
	a := &Attempt{lock: &x.Lock, validity: x.terms.Lease.Validity}
	x.begin(&a.Ballot, opSeize, owner, x.engine.Clock(), quorum.Confirm, seizing)
	a.Recorder = x.engine.Observer.Recorder(context.Background(), opSeize, x.Name, owner, nil) // it is for no call
	a.SetCommand("EVAL", nil)
	a.AskVoters(x.terms.Lease.TTL)
	for i := range a.Votes {
		v := &a.Votes[i]
		if v.Skip != nil {
			continue
		}
		t := target(i)
		v.Call.Args = protocol.SeizeCall{Keys: &x.wire, Record: v.Right.Record, Owner: owner, Values: t.Values, ReadersUntil: t.ReadersUntil}.Eval(&x.terms.settings)
	}
	x.engine.spareAMinority(&a.Ballot)
	return a
}

func foundBy(b *quorum.Ballot) (found []Found) {
	for i, a := range b.Answers() {
		if a.Count == quorum.Yes {
			found = append(found, Found{Node: i, Holder: a.Holder, Remaining: a.Remaining, Count: a.Token})
		}
	}
	return found
}
