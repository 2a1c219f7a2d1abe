package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/lock"
)

// RWMutex is the name of a lock that many readers hold together or one writer holds alone,
// and its settings. Its writer's side is the Mutex of that name: both exclude each other, and
// each other's readers. Callers of both sides stand in one wait queue, first come, first
// served: a reader that comes after a waiting writer waits behind it, and the readers that
// stand together at the head of the queue get the lock together.
//
// A reader's lease is a share. Every share has an owner, an end and renewals of its own: a
// reader that dies leaves the lock when its own ttl is over, whatever other readers do.
//
// Like a Mutex it has no state, is safe for concurrent use, and cheap to make anew for every
// use.
type RWMutex struct {
	writer Mutex
	reader Mutex // its lock is shared
	shared lock.Shared
}

// RWMutex names a lock for readers and writers. opts override the client's for this RWMutex;
// bad ones are reported by its methods. It does not touch the nodes.
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	m := &RWMutex{reader: Mutex{locker: c.newLocker(name, opts)}}
	m.shared.Init(c.locks, m.reader.opts.terms, m.reader.opts.prefix, m.reader.name)
	m.reader.use(&m.shared.Lock)
	m.writer.locker = m.reader.locker // their keys are the same
	m.writer.exclusive.Init(c.locks, m.reader.opts.terms, m.reader.opts.prefix, m.reader.name)
	m.writer.lock = &m.writer.exclusive.Lock
	if m.reader.err == nil {
		m.reader.err = m.reader.opts.checkAlone("a share")
	}
	return m
}

// Lock acquires the lock for a writer, alone: it is Mutex.Lock, with its errors.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.writer.Lock(ctx) }

// TryLock acquires the lock for a writer without waiting for holders: it is Mutex.TryLock,
// with its errors.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.writer.TryLock(ctx) }

// Do locks for a writer, runs fn, and unlocks: it is Mutex.Do, with its errors.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.writer.Do(ctx, fn)
}

// RLock acquires a share of the lock, for a reader. It waits while a writer holds the lock,
// and while writers wait for it that asked before; other readers do not keep it waiting. ctx
// bounds the waiting, not the holding: give it a deadline.
//
// The lease's token is not less than that of every writer before it; readers that hold the
// lock together mostly have the same one. A resource that the lock protects must keep two
// numbers: package fence has Guard.Read for leases like this one.
//
// Errors: those of Mutex.Lock. ErrHeld at once where ctx is that of a Do or Lease of this
// lock, also of a share: to wait behind a writer that waits for that share would be to wait
// for itself. (WithReentry joins that lease instead.)
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.reader.Lock(ctx) }

// TryRLock acquires a share of the lock without waiting. It gives way to every writer that
// waits for the lock. It takes as long as Mutex.TryLock.
//
// Errors: those of Mutex.TryLock; a *HeldError has Shared set where readers hold the lock
// and a writer waits for it.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.reader.TryLock(ctx) }

// RDo acquires a share, runs fn, and unlocks, as Do does for a writer. Errors: RLock's, or
// fn's, as Do returns them.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.reader.Do(ctx, fn)
}

// RLocker returns the readers' side, for code that takes a *Mutex: its Lock, TryLock and Do are
// RLock, TryRLock and RDo.
func (m *RWMutex) RLocker() *Mutex { return &m.reader }
