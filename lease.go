package redlock

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Lease is one holding of a lock, from grant to release or loss. It is safe for
// concurrent use. Unless WithoutRenewal is set it renews itself until it is
// released; a Lease that is garbage collected without Unlock is released then,
// and an error is logged. With WithoutRenewal it ends with its ttl.
type Lease struct {
	h *holding
}

// Name is the lock's name.
func (l *Lease) Name() string { return l.h.mutex.name }

// Owner is the random value that marks this lease at the nodes: a random part,
// then "@" and the owner label.
func (l *Lease) Owner() string { return l.h.owner }

// Token is the fencing token: for the lock's name, it is greater than that of
// every lease before it, over all clients; positive, below 2^53. Hand it to what
// the lock protects, so that it can refuse a holder that comes too late. 0 where
// WithFencing is off.
func (l *Lease) Token() int64 { return l.h.token }

// Remaining is how long the lease may still be trusted: its ttl less the time
// since it was asked for, less the drift allowance; 0 when it has ended. A lease
// that was waited for may begin with less than half a second, until its first
// renewal, which follows at once. It is measured on a clock that cannot be set and
// goes on while the machine is suspended.
func (l *Lease) Remaining() time.Duration { return l.h.remaining() }

// Valid tells whether the lease may be trusted now.
func (l *Lease) Valid() bool { return l.h.remaining() > 0 }

// Until is the end of validity on the wall clock, for people and logs; a
// program asks Remaining, since the wall clock may be set.
func (l *Lease) Until() time.Time {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return time.Now().Add(l.h.until - l.h.now())
}

// Done is closed when the lease is released or lost, at the latest when its
// validity ends. (On a machine that was suspended, within a second of waking;
// Valid and Remaining are right at once.)
func (l *Lease) Done() <-chan struct{} {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		h.done = make(chan struct{})
		if h.err != nil {
			close(h.done)
		}
	}
	return h.done
}

// Err is nil while the lease is held, then ErrReleased, a *LostError (ErrLost), or
// ErrClosed if the client's Close ended it.
func (l *Lease) Err() error { return l.h.why() }

// Context derives a context that is cancelled when the lease ends, at the latest
// at the end of its validity; context.Cause then gives an error that is ErrLost (a
// *LostError), ErrReleased or ErrClosed. It keeps the lease alive, as the Lease itself does, and
// so does every context derived from it that is not cancelled.
// The CancelFunc frees its resources; the lease goes on.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := l.h.atEnd(cancel)
	// The value is outside of what the holding refers to: as long as somebody
	// has the context he has the Lease, but the holding itself does not.
	held := context.WithValue(ctx, heldKey{l.h.mutex.client, l.h.mutex.key}, l)
	return held, func() {
		forget()
		cancel(context.Canceled)
	}
}

// heldKey is under what a context carries a lease that is held meanwhile.
type heldKey struct {
	client *Client
	key    string
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
	ctx, call := l.h.mutex.begin(ctx, "extend")
	again, err := l.extend(ctx)
	if again { // the scripts were missing, and are loaded by now
		_, err = l.extend(ctx)
	}
	call.end(l, err)
	return err
}

// extend is one renewal. again tells that nodes had to load the scripts first,
// and that another one may succeed.
func (l *Lease) extend(ctx context.Context) (again bool, err error) {
	defer runtime.KeepAlive(l) // it is not dropped before this is over
	h := l.h
	h.mu.Lock()
	if why := h.ended(); why != nil {
		h.mu.Unlock()
		h.lapse()
		return false, h.refuse("extend", why)
	}
	b, crowded := h.queueRenewal(ctx, false)
	h.mu.Unlock()
	b.Flush(crowded)

	v, err := b.Await(ctx, h.mutex.opts.voteTimeout(), nil)
	why := h.conclude(b, v)
	switch {
	case why != nil:
		return false, h.refuse("extend", why)
	case v == quorum.Granted:
		return false, nil
	case err != nil:
		return false, &waitError{op: "extend", name: l.Name(), cause: err, last: b.quorumError()}
	}
	return b.lackedScripts(), b.quorumError()
}

// Unlock releases the lease at every node and returns when a quorum confirmed.
// A ctx that has ended does not keep it from doing so; it takes at most one
// node timeout. Nodes that do not answer owe the release: they get it first
// thing when they are back. A second call returns nil.
//
// Errors: ErrLost (a *LostError says why) when the lease had ended before, or a quorum
// of the nodes had lost it: what was left of it is released, but somebody else may have
// held the lock meanwhile. ErrNoQuorum when too few nodes confirmed (a *QuorumError has
// each node's vote); the lease has ended all the same. ErrClosed when Close
// ended it.
func (l *Lease) Unlock(ctx context.Context) error {
	ctx, call := l.h.mutex.begin(ctx, "unlock")
	err := l.unlock(ctx)
	call.end(l, err)
	return err
}

// unlock heeds of ctx only for which call it is.
func (l *Lease) unlock(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	h := l.h
	b, was := h.endBy(ctx, ErrReleased)
	switch {
	case b == nil && was == ErrReleased:
		return nil
	case b == nil:
		return h.refuse("unlock", was)
	}
	// The release is on its way, whatever ctx says.
	v, _ := b.Await(context.Background(), h.mutex.opts.voteTimeout(), nil)
	switch l := h.mutex.client.line; {
	case b.handedOver():
		l.handedOver(h.mutex.key, h.now()-b.Start)
	case h.waiter.queues() && b.freed(): // else nobody of this client need be in line
		l.freed(h.mutex.key, b.Start)
	}
	switch {
	case was != nil:
		return h.refuse("unlock", was)
	case v != quorum.Granted:
		return b.quorumError()
	case b.foundNothing() && h.now() < h.validity():
		return h.newLost(LostRevoked)
	}
	return nil
}

// Do locks, runs fn, and unlocks. fn's ctx is cancelled, with a cause that is
// ErrLost, no later than the validity of the lease ends: fn must heed it. The
// lease is released when fn returns or panics.
//
// It returns Lock's error, or fn's, joined with a *LostError (ErrLost) if the lease
// was lost before fn returned: then somebody else may have held the lock while
// fn was running.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// do is Do once the lock is acquired.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	if why := l.h.work(); why != nil {
		return l.h.refuse("do", why)
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
