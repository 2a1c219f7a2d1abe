package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/lock"
)

// RWMutex is the name and the settings of a lock that many readers hold together or one writer
// holds alone. Its writers' side is the Mutex of that name. It has no state, and is safe for
// concurrent use. See docs/primitives.md, Readers and writers.
type RWMutex struct {
	writer Mutex
	reader Mutex // its lock is shared
	shared lock.Shared
}

// RWMutex returns the RWMutex of a name, as Client.Mutex returns a Mutex.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	m := &RWMutex{reader: Mutex{locker: c.newLocker(shareKind, name, opts)}}
	m.shared.Init(c.locks, m.reader.opts.terms, m.reader.opts.prefix, m.reader.name)
	m.reader.use(&m.shared.Lock)
	m.writer.locker = m.reader.locker // their keys are the same
	m.writer.exclusive.Init(c.locks, m.reader.opts.terms, m.reader.opts.prefix, m.reader.name)
	m.writer.lock = &m.writer.exclusive.Lock
	m.writer.kind = mutexKind
	m.reader.checkKind()
	return m
}

// Lock is Mutex.Lock for a writer.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.writer.Lock(ctx) }

// TryLock is Mutex.TryLock for a writer.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.writer.TryLock(ctx) }

// Do is Mutex.Do for a writer.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.writer.Do(ctx, fn)
}

// TryDo is Mutex.TryDo for a writer.
func (m *RWMutex) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.writer.TryDo(ctx, fn)
}

// RLock acquires a share, for a reader, and waits for writers that hold the lock or asked before.
// Errors: those of Mutex.Lock. For the token, see Guard.Read of package fence.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.reader.Lock(ctx) }

// TryRLock is Mutex.TryLock for a reader. It gives way to every waiting writer.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.reader.TryLock(ctx) }

// RDo is Mutex.Do for a reader.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.reader.Do(ctx, fn)
}

// TryRDo is Mutex.TryDo for a reader, by TryRLock.
func (m *RWMutex) TryRDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return m.reader.TryDo(ctx, fn)
}

// RLocker returns the readers' side as a Mutex: its Lock is RLock, and so on.
func (m *RWMutex) RLocker() *Mutex { return &m.reader }
