package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Lease is one holding of a lock, from grant to release or loss. It is safe for
// concurrent use. Unless WithoutRenewal is set it renews itself until it is
// released; a Lease that is garbage collected without Unlock is released then,
// and an error is logged. With WithoutRenewal it ends with its ttl.
//
// With WithReentry several Leases may be one holding. Each is released by itself, and has a
// Done, Err and Context of its own; the lock is released with the last one. All else is
// that of the holding: names, owner, token, validity, and its loss.
type Lease struct {
	handle lease.Handle
	lock   *locker
}

// state returns what the client knows of the lease, without the user's reference to it.
func (l *Lease) state() *lease.Lease { return l.handle.Lease() }

// Name is the lock's name; of a Multi's lease, the names in their order, with commas between.
func (l *Lease) Name() string { return l.lock.name }

// Names are the names that the lease holds: several, in the order of their bytes, if it is a
// Multi's; else the lock's.
func (l *Lease) Names() []string {
	if l.lock.names == nil {
		return []string{l.lock.name}
	}
	return slices.Clone(l.lock.names)
}

// Owner is the random value that marks this lease at the nodes: a random part,
// then "@" and the owner label.
func (l *Lease) Owner() string { return l.state().Owner }

// Label is the readable part of the owner: the WithOwnerLabel of the client or the lock.
func (l *Lease) Label() string { return protocol.LabelOf(l.state().Owner) }

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
func (l *Lease) Remaining() time.Duration { return l.handle.Remaining() }

// Valid reports whether the lease may be trusted now.
func (l *Lease) Valid() bool { return l.handle.Remaining() > 0 }

// Until is the end of validity on the wall clock, for people and logs; a
// program asks Remaining, since the wall clock may be set. After Unlock, Handoff or a loss it still
// returns the end that the lease would have had.
func (l *Lease) Until() time.Time {
	return time.Now().Add(l.state().Until() - l.lock.opts.clock())
}

// Done is closed when the lease is released, handed off or lost, or the client is closed, at the latest when its
// validity ends. (On a machine that was suspended, within a second of waking;
// Valid, Remaining and Err are right at once.)
func (l *Lease) Done() <-chan struct{} { return l.handle.Done() }

// Wanted is closed when somebody else wants the lock: a caller waits for it, or called Client.Ask. It is nil
// without WithWanted, which says who is told of what. It is the same for all Leases of one holding. It stays open if
// the lease ends before that, so receive from Done as well. The caller that wanted the lock may have given up meanwhile.
func (l *Lease) Wanted() <-chan struct{} { return l.state().Wanted.Told() }

// Err is nil while this Lease is held, then ErrReleased, ErrHandedOff, a *LostError (ErrLost), or
// ErrClosed if the client's Close ended it.
func (l *Lease) Err() error {
	if end := l.handle.End(); end != nil {
		return end.Err
	}
	return nil
}

// Context derives a context that is cancelled when the lease ends, at the latest
// at the end of its validity; context.Cause then gives an error that is ErrLost (a
// *LostError), ErrReleased, ErrHandedOff or ErrClosed. It keeps the lease alive, as the Lease itself does, and
// so does every context derived from it that is not cancelled.
// The CancelFunc frees its resources, as the end of parent does; the lease goes on.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	name := l.lock.name
	forget := l.handle.AtEnd(ctx, func(end *lease.End) { cancel(endError("hold", name, end)) })
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
// the call. ErrReleased after Unlock, ErrHandedOff after Handoff and while it runs, ErrClosed after Close.
func (l *Lease) Extend(ctx context.Context) error {
	defer runtime.KeepAlive(l) // it is not dropped before this is over
	ctx, call := l.lock.client.observe.begin(ctx, "extend", l.lock.name)
	err := l.extension("extend", l.handle.Extend(ctx))
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
// Errors: those of Extend; ErrConfig, and nothing has changed, for a lease of a Multi or of a Semaphore, or with WithMinHold or WithLockDelay. After ErrNoQuorum the lease is valid until its old end, as a share;
// its renewals go on letting readers in at the nodes that did not answer.
func (l *Lease) Downgrade(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "downgrade", l.lock.name)
	err := l.downgrade(ctx)
	call.end(l, err)
	return err
}

func (l *Lease) downgrade(ctx context.Context) error {
	if err := l.checkDowngrade(); err != nil {
		return err
	}
	return l.extension("downgrade", l.handle.Downgrade(ctx, l.asShare()))
}

// checkDowngrade returns why the lease cannot become a share.
func (l *Lease) checkDowngrade() error {
	if l.lock.permits != nil {
		return configError("a lease of permits of the semaphore %q cannot be downgraded: it goes on holding them", printable.Cut(l.lock.name))
	}
	if l.lock.names != nil {
		return configError("a lease of several names (%s) cannot be downgraded: it goes on holding them alone", l.lock.name)
	}
	return l.lock.opts.checkAlone("a lease that is downgraded")
}

// asShare returns the readers' lock of the lease's name, with its terms.
func (l *Lease) asShare() *lock.Lock {
	var shared lock.Shared
	shared.Init(l.lock.client.locks, l.lock.opts.terms, l.lock.opts.prefix, l.lock.name)
	return &shared.Lock
}

// extension returns what a call came to as an error.
func (l *Lease) extension(op string, e lease.Extension) error {
	switch {
	case e.End != nil:
		return endError(op, l.lock.name, e.End)
	case e.Failure == nil:
		return nil
	}
	failure := quorumError(l.lock.name, e.Failure)
	failure.Op = op
	if e.Cause != nil {
		return &waitError{op: op, name: l.lock.name, cause: e.Cause, last: failure}
	}
	return failure
}

// Unlock releases the lease at every node and returns when a quorum confirmed.
// A ctx that has ended does not keep it from doing so; it takes at most one
// node timeout. Nodes that do not answer get the release first
// thing when they are back. A second call returns nil.
//
// If others hold the lock with it (WithReentry), Unlock ends only this Lease, and asks no node.
//
// Errors: ErrLost (a *LostError says why) when the lease had ended before, or a quorum
// of the nodes had lost it: what was left of it is released, but somebody else may have
// held the lock meanwhile. ErrNoQuorum when too few nodes confirmed (a *QuorumError has
// each node's vote): the lease has ended all the same, and the lock may stay taken for up to a ttl. ErrClosed when Close
// ended it. nil after Handoff, which leaves the lock taken.
func (l *Lease) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "unlock", l.lock.name)
	err := l.unlock(ctx)
	call.end(l, err)
	return err
}

func (l *Lease) unlock(ctx context.Context) error {
	switch was, failure := l.handle.Release(ctx); {
	case was != nil && was.Reason == lease.HandedOff:
		return nil
	case was != nil:
		return endError("unlock", l.lock.name, was)
	case failure != nil:
		return quorumError(l.lock.name, failure)
	}
	return nil
}

// do is Do once the lock is acquired.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	if end := l.handle.Work(); end != nil {
		return endError("do", l.lock.name, end)
	}
	inner, cancel := l.Context(ctx)
	defer func() { // also when fn panics
		cancel()
		if end := l.Unlock(ctx); errors.Is(end, ErrLost) && !errors.Is(err, end) { // fn may have returned the context's cause
			err = errors.Join(err, end)
		}
	}()
	return fn(inner, l)
}

// heldKey is under what a context carries the leases that are held meanwhile: a *heldLease.
type heldKey struct{}

// heldLease is a lease whose context a caller has, and the one in whose context it was acquired.
type heldLease struct {
	lease *Lease
	outer *heldLease // nil: none
}

// find returns the innermost lease that is held and has a name of the lock's; if whole is set, the
// innermost one that holds all that the lock asks for. It returns nil if there is none.
func (h *heldLease) find(m *locker, whole bool) *Lease {
	for ; h != nil; h = h.outer {
		l := h.lease
		if l.lock.client == m.client && (l.covers(m) || !whole && lock.Overlap(l.lock.lock.Keys(), m.lock.Keys())) && l.Err() == nil {
			return l
		}
	}
	return nil
}

// covers reports whether the lease holds all that the lock asks for: its names, and exclusively
// unless it asks for a share. A share that joined an exclusive lease does not: it stays when that is
// unlocked.
func (l *Lease) covers(m *locker) bool {
	return lock.Cover(l.lock.lock.Keys(), m.lock.Keys()) && (m.lock.Shared() || !l.Shared() && !l.handle.IsShare())
}

// endError is the error of a call on a lease that has ended.
func endError(op, name string, end *lease.End) error {
	if end.IsLoss() {
		return end.Err // it says all
	}
	return fmt.Errorf("redlock: %s %q: %w", op, printable.Cut(name), end.Err)
}

// ExtendTo is an Extend for a time of its own: the lease lasts for ttl from now, in place of the lock's ttl. Renewals and
// Extend go on, but end nothing earlier: they return to the lock's ttl when no more than that is left.
// (A lease that is WithoutRenewal just ends then.) It is for a step that takes longer than the
// lease is renewed for, such as one in which the process may be suspended. Where the holder dies, the lock is held
// until then. WithMaxHold limits it. Of several calls at once, the last one counts.
//
// A ttl that ends the lease earlier than before shortens the validity at once, whatever the nodes answer.
// If the lease renews itself, its next renewal prolongs it to the lock's ttl again.
//
// A ttl that is longer than every one before is put on record at the nodes first, and stays there: from then on a
// node that is new, or was restarted, does not vote for that long (WithRestartGuard). A node votes for a ttl that is longer
// than the lock's only if it has closed the client's old connections, so where a connection broke the user
// needs the rights to INFO, CLIENT ID and CLIENT KILL. The call takes at most two node timeouts then, else one.
//
// Errors: those of Extend; ErrConfig for a ttl that is out of the bounds of WithTTL, or too short for
// the drift allowance and two node timeouts. After ErrNoQuorum the lease is valid until its old end, or the new one if that is earlier.
func (l *Lease) ExtendTo(ctx context.Context, ttl time.Duration) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "extend", l.lock.name)
	err := l.extendTo(ctx, ttl)
	call.end(l, err)
	return err
}

func (l *Lease) extendTo(ctx context.Context, ttl time.Duration) error {
	o := l.lock.opts
	if ttl < minTTL || ttl > maxTTL-o.lockDelay {
		return configError("ExtendTo(%v): the ttl must be between %v and a year, the lock delay included", ttl, minTTL)
	}
	ttl = wholeMillis(ttl)
	if err := o.checkTTL(ttl); err != nil {
		return err
	}
	keys := ttl + o.lockDelay
	if ttl > o.ttl && l.Valid() {
		l.lock.client.locks.AwaitRecord(ctx, o.terms, keys)
	}
	return l.extension("extend", l.handle.ExtendTo(ctx, lease.Span{TTL: keys, Validity: o.drift.validity(ttl)}))
}
