package redlockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/redlock-go/redlock"
)

// namePrefix is what the names of locks begin with, so that they differ from those of a program
// that locks at the same masters for other purposes.
const namePrefix = "certmagic:"

// Storage is a certmagic.Storage with the locks of a redlock Client. It is also a
// certmagic.TryLocker and a certmagic.LockLeaseRenewer. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage // keeps the data; its Lock and Unlock are not called

	client *redlock.Client
	opts   []redlock.LockOption

	mu    sync.Mutex // protects slots, and the fields of a slot that say so
	slots map[string]*slot
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// Wrap returns a storage that keeps its data in storage and locks with client. The lock that
// certmagic calls N is the redlock Mutex "certmagic:N" with opts; its Lock and TryLock return
// ErrConfig where an option is bad. Storages with different data at the same masters need
// different names of locks: give each a redlock.WithPrefix of its own.
//
// The leases must renew themselves, so opts must not have WithoutRenewal: certmagic asks for a
// renewal before each attempt only, and attempts are up to six hours apart.
//
// It returns ErrConfig when storage or client is nil. The client stays the caller's: close it
// when certmagic has stopped.
func Wrap(storage certmagic.Storage, client *redlock.Client, opts ...redlock.LockOption) (*Storage, error) {
	switch {
	case storage == nil:
		return nil, fmt.Errorf("redlockcertmagic: %w: the storage is nil; give the one that keeps the certificates", redlock.ErrConfig)
	case client == nil:
		return nil, fmt.Errorf("redlockcertmagic: %w: the client is nil; give the one of redlock.Open", redlock.ErrConfig)
	}
	return &Storage{Storage: storage, client: client, opts: opts, slots: make(map[string]*slot)}, nil
}

// String names the wrapped storage: certmagic logs it.
func (s *Storage) String() string {
	if named, ok := s.Storage.(fmt.Stringer); ok {
		return "redlock:" + named.String()
	}
	return fmt.Sprintf("redlock:%T", s.Storage) // its fields may be secrets
}

// mutex returns the lock of a name.
func (s *Storage) mutex(name string) *redlock.Mutex {
	return s.client.Mutex(namePrefix+name, s.opts...)
}

// Lock acquires the lock of a name, and waits for it until ctx ends. The lease renews itself
// until Unlock.
//
// Errors: those of redlock's Mutex.Lock; ctx's cause, when ctx ends while another caller of this
// process has the name.
func (s *Storage) Lock(ctx context.Context, name string) error {
	slot := s.enter(name)
	if !slot.await(ctx) {
		s.leave(name, slot)
		return fmt.Errorf("redlockcertmagic: lock %q: gave up while another caller of this process has it: %w", name, context.Cause(ctx))
	}
	lease, err := s.mutex(name).Lock(ctx)
	if err != nil {
		s.free(name, slot)
		return fmt.Errorf("redlockcertmagic: lock %q: %w", name, err)
	}
	s.grant(slot, lease)
	return nil
}

// TryLock acquires the lock of a name if nobody holds it, and reports whether it did. It does
// not wait for a holder. It returns false, without asking the nodes, also while another caller of this process waits
// for the lock.
//
// Errors: those of redlock's Mutex.TryLock except ErrHeld, which is no error here. ErrNoQuorum
// means that too few nodes answered to say whether the lock is held.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	slot := s.enter(name)
	select {
	case slot.taken <- struct{}{}:
	default:
		s.leave(name, slot)
		return false, nil
	}
	lease, err := s.mutex(name).TryLock(ctx)
	if err == nil {
		s.grant(slot, lease)
		return true, nil
	}
	s.free(name, slot)
	if errors.Is(err, redlock.ErrHeld) {
		return false, nil
	}
	return false, fmt.Errorf("redlockcertmagic: try to lock %q: %w", name, err)
}

// Unlock releases the lock of a name. A ctx that has ended does not keep it from doing so; it
// takes at most one node timeout. Whatever it returns, this process does not hold the lock
// any more.
//
// Errors: ErrLost (a *redlock.LostError says why) when the lease had ended before: another
// instance may have had the lock meanwhile. ErrReleased when no caller of this process holds
// the lock: there was no Lock, or an Unlock before. ErrNoQuorum when too few nodes confirmed:
// the others free the lock when they are back, or with its ttl. ErrClosed when the client was
// closed before.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	slot, lease := s.take(name)
	if lease == nil {
		return notHeld("unlock", name)
	}
	err := lease.Unlock(ctx)
	s.free(name, slot) // after the release: the next caller of this process would have to wait for it
	if err != nil {
		return fmt.Errorf("redlockcertmagic: unlock %q: %w", name, err)
	}
	return nil
}

// RenewLockLease reports whether the caller may make another attempt under the lock: it returns
// nil while the lease is valid. It asks the nodes to extend the lease, so that a lock that was
// taken away is noticed before the attempt. If too few nodes answer, the lease stays valid
// until its old end, and RenewLockLease returns nil until then. It takes at most one
// node timeout.
//
// The duration has no effect. It is the time until the next attempt, a minute to
// a month: the lease renews itself for that time as long as the process lives, and if it dies,
// the other instances get the lock after a ttl. A lease of that duration at the nodes would
// keep them waiting for all of it, and keep a restarted node from voting just as long.
//
// Errors: ErrLost (a *redlock.LostError says why) when the lease has ended: another instance may
// have the lock. ErrReleased when no caller of this process holds the lock. ErrClosed when the
// client was closed.
//
// After ErrLost, further calls try to get the lock again: certmagic makes up to a month of
// attempts under one Lock, and checks at the beginning of each whether another instance has
// made the certificate. Such a call returns nil if the lock was free, with a new lease until
// Unlock; else ErrLost, joined with the error of redlock's Mutex.TryLock.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	slot, lease, reported := s.holding(name)
	if lease == nil {
		return notHeld("renew", name)
	}
	if reported {
		return s.lockAgain(ctx, name, slot, lease)
	}
	_ = lease.Extend(ctx) // a failure matters only if the lease has ended
	err := lease.Err()
	if errors.Is(err, redlock.ErrLost) {
		s.report(slot, lease)
	}
	if err != nil {
		return fmt.Errorf("redlockcertmagic: renew %q: %w", name, err)
	}
	return nil
}

// lockAgain replaces a lost lease by a new one, if the lock is free.
func (s *Storage) lockAgain(ctx context.Context, name string, slot *slot, lost *redlock.Lease) error {
	fresh, err := s.mutex(name).TryLock(ctx)
	if err != nil {
		return fmt.Errorf("redlockcertmagic: lock %q again: %w", name, errors.Join(lost.Err(), err))
	}
	if s.replace(slot, lost, fresh) {
		return nil
	}
	_ = fresh.Unlock(ctx) // if the nodes do not confirm it, they execute it later
	return notHeld("lock again", name)
}

func notHeld(op, name string) error {
	return fmt.Errorf("redlockcertmagic: %s %q: no caller of this process holds the lock: it was not locked, or unlocked before: %w",
		op, name, redlock.ErrReleased)
}
