package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
)

// Lease is one holding of a lock, from grant to release or loss. It is safe for
// concurrent use. Unless WithoutRenewal is set it renews itself until it is
// released; a Lease that is garbage collected without Unlock is released then,
// and an error is logged. With WithoutRenewal it ends with its ttl.
type Lease struct {
	handle lease.Handle
	lock   *locker
}

// state returns what the client knows of the lease, without the user's reference to it.
func (l *Lease) state() *lease.Lease { return l.handle.Lease() }

// Name is the lock's name.
func (l *Lease) Name() string { return l.lock.name }

// Owner is the random value that marks this lease at the nodes: a random part,
// then "@" and the owner label.
func (l *Lease) Owner() string { return l.state().Owner }

// Token is the fencing token, which orders the leases of the lock's name over all
// clients. A lease that holds the lock alone has a token greater than that of every
// lease before it, shares included. A share has one that is not less than that of every
// lease that held the lock alone before it: it may equal that of the last one, and that of
// other shares. Downgrade does not change it. It is positive, below 2^53; 0 where
// WithFencing is off.
//
// Hand it to what the lock protects, so that it can refuse a holder that comes too late:
// see package fence, for shares its section on readers and writers.
func (l *Lease) Token() int64 { return l.state().Token }

// Shared reports whether the lease is a share: a reader's, or a writer's after Downgrade. Other
// readers may hold the lock beside it.
func (l *Lease) Shared() bool { return l.state().Shared() }

// Remaining is how long the lease may still be trusted: its ttl less the time
// since it was asked for, less the drift allowance; 0 when it has ended. A lease
// that was waited for may begin with less than half a second, until its first
// renewal, which follows at once. It is measured on a clock that cannot be set and
// goes on while the machine is suspended.
func (l *Lease) Remaining() time.Duration { return l.state().Remaining() }

// Valid reports whether the lease may be trusted now.
func (l *Lease) Valid() bool { return l.state().Remaining() > 0 }

// Until is the end of validity on the wall clock, for people and logs; a
// program asks Remaining, since the wall clock may be set.
func (l *Lease) Until() time.Time {
	return time.Now().Add(l.state().Until() - l.lock.opts.clock())
}

// Done is closed when the lease is released or lost, at the latest when its
// validity ends. (On a machine that was suspended, within a second of waking;
// Valid and Remaining are right at once.)
func (l *Lease) Done() <-chan struct{} { return l.state().Done() }

// Err is nil while the lease is held, then ErrReleased, a *LostError (ErrLost), or
// ErrClosed if the client's Close ended it.
func (l *Lease) Err() error {
	if end := l.state().End(); end != nil {
		return end.Err
	}
	return nil
}

// Context derives a context that is cancelled when the lease ends, at the latest
// at the end of its validity; context.Cause then gives an error that is ErrLost (a
// *LostError), ErrReleased or ErrClosed. It keeps the lease alive, as the Lease itself does, and
// so does every context derived from it that is not cancelled.
// The CancelFunc frees its resources; the lease goes on.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	name := l.lock.name
	forget := l.state().AtEnd(func(end *lease.End) { cancel(endError("hold", name, end)) })
	// The value is outside of what the lease's state refers to: as long as somebody
	// has the context he has the Lease, but the state itself does not.
	outer, _ := parent.Value(heldKey{}).(*heldLease)
	held := context.WithValue(ctx, heldKey{}, &heldLease{l, outer})
	return held, func() {
		forget()
		cancel(context.Canceled)
	}
}

// Extend prolongs the lease to a full ttl from now, if its validity has not
// ended; it also puts its key back at nodes that have lost it. Leases that
// renew themselves do not need it. It takes at most one node timeout. ctx bounds
// the call; a lease whose Extend failed with anything but ErrLost stays valid
// until its old end.
//
// Errors: ErrLost (a *LostError says why) when the validity had ended before or during
// the call, or a quorum of the nodes had lost the lease: then somebody else may have
// held it, and what is left of it is released. ErrNoQuorum when too few nodes confirmed
// (a *QuorumError has each node's vote), joined with ctx's cause if that ended
// the call. ErrReleased after Unlock, ErrClosed after Close.
func (l *Lease) Extend(ctx context.Context) error {
	defer runtime.KeepAlive(l) // it is not dropped before this is over
	ctx, call := l.lock.client.observe.begin(ctx, "extend", l.lock.name)
	err := l.extension("extend", l.state().Extend(ctx))
	call.end(l, err)
	return err
}

// Downgrade makes a lease that holds the lock alone a share, without letting the lock go in
// between: readers may hold the lock beside it from then on, and those that wait in front of
// the first writer are let in. It is an Extend as well: the lease is prolonged to a full ttl from now.
// Of a share it is only that.
//
// From the call on the lease is a share, whatever Downgrade returns: stop writing before it,
// and use Guard.Read of package fence after it. There is no way back: a share cannot become a
// lease that holds the lock alone. It takes at most one node timeout.
//
// Errors: those of Extend. After ErrNoQuorum the lease is valid until its old end, as a share;
// its renewals go on letting readers in at the nodes that did not answer.
func (l *Lease) Downgrade(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "downgrade", l.lock.name)
	var shared lock.Shared
	shared.Init(l.lock.client.locks, l.lock.opts.terms, l.lock.opts.prefix, l.lock.name)
	err := l.extension("downgrade", l.state().Downgrade(ctx, &shared.Lock))
	call.end(l, err)
	return err
}

// extension returns what a call came to as an error.
func (l *Lease) extension(op string, e lease.Extension) error {
	switch {
	case e.End != nil:
		return endError(op, l.lock.name, e.End)
	case e.Cause != nil:
		return &waitError{op: op, name: l.lock.name, cause: e.Cause, last: quorumError(l.lock.name, e.Failure)}
	case e.Failure != nil:
		return quorumError(l.lock.name, e.Failure)
	}
	return nil
}

// Unlock releases the lease at every node and returns when a quorum confirmed.
// A ctx that has ended does not keep it from doing so; it takes at most one
// node timeout. Nodes that do not answer get the release first
// thing when they are back. A second call returns nil.
//
// Errors: ErrLost (a *LostError says why) when the lease had ended before, or a quorum
// of the nodes had lost it: what was left of it is released, but somebody else may have
// held the lock meanwhile. ErrNoQuorum when too few nodes confirmed (a *QuorumError has
// each node's vote); the lease has ended all the same. ErrClosed when Close
// ended it.
func (l *Lease) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "unlock", l.lock.name)
	err := l.unlock(ctx)
	call.end(l, err)
	return err
}

func (l *Lease) unlock(ctx context.Context) error {
	switch was, failure := l.state().Release(ctx); {
	case was != nil:
		return endError("unlock", l.lock.name, was)
	case failure != nil:
		return quorumError(l.lock.name, failure)
	}
	return nil
}

// do is Do once the lock is acquired.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	if end := l.state().Work(); end != nil {
		return endError("do", l.lock.name, end)
	}
	inner, cancel := l.Context(ctx)
	defer func() { // also when fn panics
		cancel()
		if end := l.Unlock(ctx); errors.Is(end, ErrLost) {
			err = errors.Join(err, end)
		}
	}()
	return fn(inner, l)
}

// endError is the error of a call on a lease that has ended.
func endError(op, name string, end *lease.End) error {
	if end.IsLoss() {
		return end.Err // it says all
	}
	return fmt.Errorf("redlock: %s %q: %w", op, name, end.Err)
}
