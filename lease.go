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

// Lease is one hold on a lock. It is safe for concurrent use. It renews itself until it is
// released, transferred or lost; with WithoutRenewal it expires after its ttl. The caller must
// call Unlock. With WithReentry, several Leases can share one hold.
type Lease struct {
	handle lease.Handle
	lock   *locker
}

// state returns what the client knows of the lease, without the user's reference to it.
func (l *Lease) state() *lease.Lease { return l.handle.Lease() }

// Name returns the lock's name, or the names of a Multi with commas between.
func (l *Lease) Name() string { return l.lock.name }

// Names returns the names that the lease holds, in byte order.
func (l *Lease) Names() []string {
	if l.lock.names == nil {
		return []string{l.lock.name}
	}
	return slices.Clone(l.lock.names)
}

// Owner returns the value that marks the lease at the nodes.
func (l *Lease) Owner() string { return l.state().Owner }

// Label returns the label of WithOwnerLabel.
func (l *Lease) Label() string { return protocol.LabelOf(l.state().Owner) }

// Since returns when the lease was granted, to the second, by this client's wall clock. After a
// wait or Resume, it returns when the lease was requested.
func (l *Lease) Since() time.Time { return protocol.SinceOf(l.state().Owner) }

// Token returns the fencing token for the resource that the lock protects: see package fence. It
// is between 1 and 2^53-1; 0 with WithoutFencing. The token of an exclusive lease is greater than
// all earlier ones. That of a shared lease is not less than those of earlier exclusive leases.
func (l *Lease) Token() int64 { return l.state().Token }

// Shared reports whether the lease is shared: readers may hold the lock beside it.
func (l *Lease) Shared() bool { return l.state().Shared() }

// Remaining returns how long the lease is still valid, less the drift allowance; 0 after its end.
func (l *Lease) Remaining() time.Duration { return l.handle.Remaining() }

// Valid reports whether the lease is valid now.
func (l *Lease) Valid() bool { return l.handle.Remaining() > 0 }

// Until returns the end of validity by the wall clock, for people and logs. Programs use
// Remaining. After the lease has ended, Until returns the end that it would have had.
func (l *Lease) Until() time.Time {
	return time.Now().Add(l.state().Until() - l.lock.opts.clock())
}

// Done returns a channel that is closed when the lease is released, transferred or lost, or its
// client is closed.
func (l *Lease) Done() <-chan struct{} { return l.handle.Done() }

// Wanted returns a channel that is closed when another caller wants the lock; nil without
// WithWanted. It may stay open when the lease ends. See docs/primitives.md, A holder that lets
// go.
func (l *Lease) Wanted() <-chan struct{} { return l.state().Wanted.Told() }

// Err returns nil while the lease is held, then ErrReleased, ErrTransferred, ErrClosed or a
// *LostError.
func (l *Lease) Err() error {
	if end := l.handle.End(); end != nil {
		return end.Err
	}
	return nil
}

// Context derives a context that is cancelled when the lease ends. errors.Is then finds ErrReleased,
// ErrTransferred, ErrClosed or ErrLost in its cause. The context keeps the lease from being dropped.
// The CancelFunc frees its resources; the lease goes on.
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

// Extend prolongs the lease to a full ttl from now, or leaves an end that ExtendTo set later, within
// one node timeout. It restores the keys at nodes that lost them.
//
// Errors: ErrLost; ErrNoQuorum, joined with ctx's cause if that ended the call; ErrReleased,
// ErrTransferred, ErrClosed. After ErrNoQuorum the lease stays valid until its old end.
func (l *Lease) Extend(ctx context.Context) error {
	defer runtime.KeepAlive(l) // it is not dropped before this is over
	ctx, call := l.lock.client.observe.begin(ctx, "extend", l.lock.name)
	err := l.extension("extend", l.handle.Extend(ctx))
	call.end(l, err)
	return err
}

// Downgrade makes an exclusive lease shared without releasing the lock, and extends it. Finish
// writes before the call: unless Downgrade returns ErrConfig, the lease is shared from the call
// on.
//
// Errors: those of Extend; ErrConfig for a lease of a Multi or Semaphore, or with WithMinHold or
// WithLockDelay.
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

// Unlock releases the lease and returns when a quorum has confirmed, within one node timeout,
// even if ctx has ended. A second call, or one after Transfer, returns nil. With
// WithReentry it ends this Lease alone, and the last one releases the lock.
//
// Errors: ErrLost; ErrClosed; ErrNoQuorum: the lease has ended, but the lock may stay taken for
// up to a ttl.
func (l *Lease) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "unlock", l.lock.name)
	var err error
	switch was, failure := l.handle.Release(ctx); {
	case was != nil && was.Reason == lease.Transferred:
	case was != nil:
		err = endError("unlock", l.lock.name, was)
	case failure != nil:
		err = quorumError(l.lock.name, failure)
	}
	call.end(l, err)
	return err
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

// ExtendTo makes the lease end ttl from now, earlier or later than before, within one node timeout; within two
// for a ttl longer than all before. Renewals do not shorten it; WithMaxHold limits it. See docs/primitives.md,
// A step that takes longer.
//
// Errors: those of Extend; ErrConfig for a ttl out of the bounds of WithTTL, or too short for the
// drift allowance and two node timeouts. After ErrNoQuorum the earlier of the old and the new end
// counts.
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
