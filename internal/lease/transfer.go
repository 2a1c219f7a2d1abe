package lease

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// A transfer ends a lease here and leaves its keys to another process. docs/safety.md (Transfer) has
// the argument.

// ErrTransferred is the error of a lease that was transferred.
var ErrTransferred = errors.New("the lease is transferred")

// ErrOthersHold is why a handle cannot transfer its lease.
var ErrOthersHold = errors.New("others hold the lease with it")

var transferred = &End{Reason: Transferred, Err: ErrTransferred}

// ErrShared is why a shared lease cannot be transferred.
var ErrShared = errors.New("others may hold the lock at the same time")

// Passing is what the keys of a lease hold where nodes have executed a transfer. All transfers of a
// lease have the same: none leaves a text before the lease ends.
type Passing struct {
	Secret string // of the text; no node and no other client knows it
	Value  string // of the keys, made of the secret

	sent quorum.NodeSet // nodes that a transfer was sent to
	kept quorum.NodeSet // where the keys stay for a text
}

// isValue reports whether a holder that a node names is a transfer of the lease.
func (p *Passing) isValue(holder string) bool { return p != nil && holder == p.Value }

// Passed is where a transfer of a lease has changed its keys.
type Passed struct {
	At    quorum.NodeSet // nodes that have executed one, or may yet
	Value string         // of the keys there
	Lasts time.Duration  // how long they may last, at most
}

// passed returns what a transfer has changed at nodes to which one was sent. Called under l.mu.
func (l *Lease) passed(at quorum.NodeSet) Passed {
	return Passed{At: at, Value: l.ending.passing.Value, Lasts: l.keysLast()}
}

// Transfer is the ballot of a transfer: a renewal that gives the keys another value, and
// passes the key on.
type Transfer interface {
	// NewPassing draws what the keys hold from the transfers on of the lease with this owner.
	NewPassing(owner string) *Passing

	// Begin makes b the ballot, which is not queued yet, of the lease with this owner.
	Begin(ctx context.Context, b *quorum.Ballot, owner string, p *Passing, ttl time.Duration)

	// AwaitRest waits a while for the nodes that have not answered when the ballot is granted.
	AwaitRest()

	// Settle returns the nodes that keep the lease's keys: those that have confirmed. If they are less than
	// a quorum, it returns the failed ballot.
	// Later answers do not count.
	Settle(owner string) (kept quorum.NodeSet, failure *quorum.Failure)
}

// Transfer prolongs the lease by the ballot of to, and ends it without a release at the nodes that
// keep its keys. It returns until when the lease would have been valid, on the client's clock. err
// is ErrShared where the lease is shared. It is ErrOthersHold, and the lease goes on, where other
// handles hold it, also if one of them joined meanwhile. Where less than a quorum answered, or keep
// the keys, the lease goes on too.
func (h *Handle) Transfer(ctx context.Context, to Transfer) (until time.Duration, e Extension, err error) {
	l := h.lease
	l.mu.Lock()
	switch end := h.ended(); {
	case end != nil:
		l.mu.Unlock()
		if end != released {
			l.expire()
		}
		return 0, Extension{End: end}, nil
	case l.lock.Shared():
		l.mu.Unlock()
		return 0, Extension{}, ErrShared
	case l.anyBut(h.part(), isHeld):
		l.mu.Unlock()
		return 0, Extension{}, ErrOthersHold
	}
	if l.ending.passing == nil {
		l.ending.passing = to.NewPassing(l.Owner)
	}
	b := &renewal{lease: l}
	to.Begin(ctx, &b.Ballot, l.Owner, l.ending.passing, l.usualSpan(l.cfg.Clock()).TTL)
	yield := l.queue(b, l.terms.Validity)
	l.ending.passing.sent |= b.Sent()
	l.renewal.transfers++ // no scheduled renewal may come behind it
	l.mu.Unlock()
	b.Flush(yield)

	v, cause := b.Await(ctx, l.terms.NodeTimeout, nil)
	end := l.conclude(b, v)
	if end == nil && v == quorum.Granted {
		to.AwaitRest()
		was, failure, err := l.leaveTo(ctx, h, to)
		switch {
		case failure != nil || err != nil:
			l.goOn()
			return 0, Extension{Failure: failure}, err
		case was != nil:
			return 0, Extension{End: was}, nil
		}
		return b.until, Extension{}, nil
	}
	l.goOn()
	if end != nil {
		return 0, Extension{End: end}, nil
	}
	return 0, Extension{Cause: cause, Failure: quorum.FailureOf(&b.Ballot)}, nil
}

// goOn has the keys given back to the owner after a transfer that failed, and lets scheduled
// renewals begin again behind that. While another transfer is under way, that one decides: it may
// yet make a text of the keys.
func (l *Lease) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewal.transfers--
	if l.renewal.transfers == 0 && l.ending.end == nil {
		l.lock.TakeBack(l.Owner, l.passed(l.ending.passing.sent))
	}
	l.renewer.move(l, l.cfg.Clock())
}

// leaveTo ends the lease, whose keys stay at the nodes that to has settled. was is why the lease had ended
// before; nil if it had not. The lease goes on, and err is ErrOthersHold, if another handle has joined it; failure is
// not nil if less than a quorum keep it.
func (l *Lease) leaveTo(ctx context.Context, h *Handle, to Transfer) (was *End, failure *quorum.Failure, err error) {
	l.mu.Lock()
	if l.ending.end == nil {
		if l.anyBut(h.part(), isHeld) {
			l.mu.Unlock()
			return nil, nil, ErrOthersHold
		}
		kept, failure := to.Settle(l.Owner)
		if failure != nil {
			l.mu.Unlock()
			return nil, failure, nil
		}
		l.ending.leaving = true // from now on no handle joins
		l.ending.passing.kept = kept
	}
	l.mu.Unlock()
	_, was = l.endBy(ctx, transferred, h.part())
	return was, nil, nil
}
