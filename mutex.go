package redlock

import (
	"context"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Mutex is the name of a lock and its settings. It has no state: each Lock
// returns a Lease of its own, so that no holder can release another's lock. It
// is safe for concurrent use, and cheap to make anew for every use.
type Mutex struct {
	locker
	exclusive lock.Exclusive
}

// locker is what all kinds of locks have in common.
type locker struct {
	client *Client
	name   string
	opts   *options
	err    error // bad settings, which calls return
	lock   *lock.Lock
}

// Mutex names a lock. opts override the client's for this Mutex; bad ones are
// reported by its Lock and TryLock. It does not touch the nodes.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	m := &Mutex{locker: c.newLocker(name, opts)}
	m.exclusive.Init(c.locks, m.opts.terms, m.opts.prefix, name)
	m.use(&m.exclusive.Lock)
	return m
}

// newLocker checks a lock's name and settings. use must follow.
func (c *Client) newLocker(name string, opts []Option) locker {
	l := locker{client: c, name: name, opts: &c.opts}
	if len(opts) > 0 {
		settings := c.opts
		settings.ofMutex = true
		settings, l.err = settings.with(opts)
		l.opts = &settings
	}
	if name == "" && l.err == nil {
		l.err = configError("the lock's name is empty")
	}
	if limit := c.deadAfter(); l.opts.voteTimeout() > limit && l.err == nil {
		l.err = configError("the node timeout (%v) is longer than the client awaits any answer (%v): give WithNodeTimeout to New or Open",
			l.opts.voteTimeout(), limit)
	}
	return l
}

// use sets the lock that the engine knows.
func (l *locker) use(lock *lock.Lock) {
	l.lock = lock
	if strings.HasPrefix(lock.Key(), protocol.Reserved) && l.err == nil {
		l.err = configError("the lock's key %q begins with %q, which is reserved", lock.Key(), protocol.Reserved)
	}
}

// Lock acquires the lock. If another caller holds it, Lock stands in the lock's wait
// queue with the callers of all clients: first come, first served. It waits also where
// too few nodes answer. ctx bounds the waiting, not the holding: give it a deadline.
//
// Errors: when ctx ends, one that is both its cause and ErrHeld or ErrNoQuorum,
// whichever was met last (a *HeldError names the holder and the position in the queue);
// ErrHeld at once where ctx is that of a Do or Lease of this very lock;
// ErrNoQuorum at once where so many nodes fail for reasons that waiting cannot
// mend (a wrong password, missing rights, a replica, one server given twice, a
// record of another number of nodes, a key of another type) that there will be no
// quorum; ErrClosed; ErrConfig. After an error nothing of the attempt stays at the
// nodes.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, m.op("lock", "rlock"), m.lock.Acquire)
}

// TryLock acquires the lock without waiting for a holder. It takes at most one
// node timeout, and another one where the nodes' counts differ; where the votes were
// split among callers that came at the same instant, it asks up to three times, and
// takes five node timeouts at most.
//
// Errors: ErrHeld where a quorum answered and one owner may have a quorum (a *HeldError
// names it), or ctx is that of a Do or Lease of this very lock;
// ErrNoQuorum (a *QuorumError has each node's vote); ctx's cause; ErrClosed;
// ErrConfig. After an error nothing of the attempt stays at the nodes.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, m.op("trylock", "tryrlock"), m.lock.TryAcquire)
}

// op names a call for hooks: alone if the caller asks for the lock alone, else share.
func (m *locker) op(alone, share string) string {
	if m.lock.Shared() {
		return share
	}
	return alone
}

// acquire makes a call that returns a lease.
func (m *locker) acquire(ctx context.Context, op string, by func(context.Context) (*lease.Lease, *lock.Failure)) (*Lease, error) {
	ctx, call := m.client.observe.begin(ctx, op, m.name)
	l, err := m.leaseOf(ctx, by)
	call.end(l, err)
	return l, err
}

func (m *locker) leaseOf(ctx context.Context, by func(context.Context) (*lease.Lease, *lock.Failure)) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	if err := m.nested(ctx); err != nil {
		return nil, &waitError{op: "lock", name: m.name, cause: err}
	}
	held, failure := by(ctx)
	if failure != nil {
		return nil, failureError(m.name, failure)
	}
	l := &Lease{lock: m}
	held.Bind(&l.handle)
	return l, nil
}

// Do locks, runs fn, and unlocks. fn's ctx is cancelled, with a cause that is
// ErrLost, no later than the validity of the lease ends: fn must return then. The
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

// heldKey is under what a context carries the leases that are held meanwhile: a *heldLease.
type heldKey struct{}

// heldLease is a lease whose context a caller has, and the one in whose context it was acquired.
type heldLease struct {
	lease *Lease
	outer *heldLease // nil: none
}

// find returns the innermost lease of the lock that is held; nil if there is none.
func (h *heldLease) find(m *locker) *Lease {
	for ; h != nil; h = h.outer {
		if l := h.lease; l.lock.client == m.client && l.lock.lock.Key() == m.lock.Key() && l.Err() == nil {
			return l
		}
	}
	return nil
}

// nested finds a caller that would wait for itself: its ctx is a lease's, of the same lock,
// that is held.
func (m *locker) nested(ctx context.Context) error {
	held, _ := ctx.Value(heldKey{}).(*heldLease)
	outer := held.find(m)
	if outer == nil || ctx.Err() != nil || m.client.life.IsClosing() {
		return nil
	}
	if outer.Shared() && !m.lock.Shared() {
		return fmt.Errorf("%w by this very caller: its context is that of an RDo or shared Lease of the same name, "+
			"and a share cannot become a lease that holds the lock alone; unlock the share first", ErrHeld)
	}
	return fmt.Errorf("%w by this very caller: its context is that of a Do or Lease of the same name, "+
		"so waiting would be for itself; use the lease at hand, or a context of its own", ErrHeld)
}
