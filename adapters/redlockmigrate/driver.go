package redlockmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/redlock-go/redlock"
)

// defaultLockTimeout is a second less than the LockTimeout of a migrate.Migrate, so that Lock
// gives up before its caller does.
const defaultLockTimeout = 14 * time.Second

// DriverOption changes a setting of Driver.
type DriverOption func(*locked)

// WithLockTimeout sets how long the driver's Lock waits for the redlock lock; the Lock of the driver within comes
// after that and has its own limit. Default 14 s. It must be less than the
// LockTimeout of the migrate.Migrate, which is 15 s unless you set it: golang-migrate gives a
// Lock up by that time but cannot end it, so a lock that is granted later stays held until the
// driver's Close. Set both to longer than your migrations take.
func WithLockTimeout(d time.Duration) DriverOption {
	return func(l *locked) { l.timeout = d }
}

// Driver returns d with the lock m: one process at a time migrates. It locks m first and then
// calls d's Lock, so a process without m is excluded where d's own lock does that.
//
// Lock waits for as long as WithLockTimeout says. Its error is database.ErrLocked if this driver is
// locked already, or another process migrates: then it is joined with the *redlock.HeldError that
// names the holder. Else it is that of Mutex.Lock, such as redlock.ErrNoQuorum if too few nodes
// answered; that of d's Lock; or redlock.ErrConfig if d or m is nil, or an option is bad.
//
// Run, SetVersion and Drop need the lock: without it they execute nothing, and errors.Is finds
// database.ErrNotLocked in what they return. When
// the lease is lost they return an error in which errors.Is finds redlock.ErrLost, and execute
// nothing. A statement under way goes on; its call returns ErrLost when it ends. The database
// is dirty then, as after a crash: golang-migrate refuses to go on until the version is
// forced.
//
// Unlock returns the error of d's Unlock, joined with ErrLost if the lease was lost, or ErrClosed if
// the Client was closed. The migrate.Migrate then takes itself for locked: make a new one. If only
// too few nodes confirm the release, Unlock returns nil: the lock may then stay taken for up to a ttl.
// Without a Lock it returns database.ErrNotLocked. Close closes d, ends a Lock that waits, and releases the lock.
// Open returns a driver that d opens, with the same lock.
func Driver(d database.Driver, m *redlock.Mutex, opts ...DriverOption) database.Driver {
	l := &locked{Driver: d, lock: m, timeout: defaultLockTimeout, opts: opts}
	l.open, l.close = context.WithCancelCause(context.Background())
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// locked is a driver with a lock.
type locked struct {
	database.Driver
	lock    *redlock.Mutex
	timeout time.Duration
	opts    []DriverOption

	open  context.Context // ends with Close
	close context.CancelCauseFunc

	mu    sync.Mutex // protects what follows
	busy  bool       // a Lock is under way, or has succeeded
	lease *redlock.Lease
}

var errDriverClosed = errors.New("the driver is closed")

// check returns why the driver cannot lock, ever.
func (l *locked) check() error {
	switch {
	case l.Driver == nil:
		return fmt.Errorf("redlockmigrate: %w: the driver is nil; give the one of your database", redlock.ErrConfig)
	case l.lock == nil:
		return errNoMutex
	case l.timeout <= 0:
		return fmt.Errorf("redlockmigrate: %w: WithLockTimeout(%v): it must be more than 0", redlock.ErrConfig, l.timeout)
	}
	return nil
}

func (l *locked) Lock() error {
	if err := l.check(); err != nil {
		return err
	}
	if err := l.begin(); err != nil {
		return fmt.Errorf("redlockmigrate: lock: %w", err)
	}
	lease, err := l.acquire()
	if err == nil {
		if err = l.Driver.Lock(); err != nil {
			err = errors.Join(err, unlock(context.Background(), lease))
		}
	}
	if err != nil {
		l.end()
		return err
	}
	return l.grant(lease)
}

// begin returns why no Lock may begin; nil if it may: none is under way, and none has succeeded.
func (l *locked) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open.Err() != nil:
		return errDriverClosed
	case l.busy:
		return fmt.Errorf("%w: by this driver", database.ErrLocked)
	}
	l.busy = true
	return nil
}

// end records that nobody holds the lock by this driver, or asks for it.
func (l *locked) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.lease = false, nil
}

func (l *locked) acquire() (*redlock.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(l.open, l.timeout,
		fmt.Errorf("it waited for %v (WithLockTimeout): %w", l.timeout, context.DeadlineExceeded))
	defer cancel()
	lease, err := l.lock.Lock(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return nil, fmt.Errorf("redlockmigrate: lock: %w: %w", database.ErrLocked, err)
	case err != nil:
		return nil, fmt.Errorf("redlockmigrate: lock: %w", err)
	}
	return lease, nil
}

// grant records a lease, or releases it if the driver was closed meanwhile.
func (l *locked) grant(lease *redlock.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Err() == nil {
		l.lease = lease
		return nil
	}
	return fmt.Errorf("redlockmigrate: lock: %w", errors.Join(errDriverClosed, unlock(context.Background(), lease)))
}

// held returns the lease; nil if there is none.
func (l *locked) held() *redlock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// take returns the lease, which it removes: of several calls of Unlock one gets it. It returns nil if there is none.
// No Lock may begin before end.
func (l *locked) take() *redlock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := l.lease
	l.lease = nil
	return lease
}

func (l *locked) Unlock() error {
	lease := l.take()
	if lease == nil {
		return fmt.Errorf("redlockmigrate: unlock: %w", database.ErrNotLocked)
	}
	err := errors.Join(l.Driver.Unlock(), unlock(context.Background(), lease))
	l.end()
	return err
}

func (l *locked) Close() error {
	if l.Driver == nil {
		return nil
	}
	err := l.Driver.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close(errDriverClosed)
	if l.lease == nil {
		return err
	}
	return errors.Join(err, unlock(context.Background(), l.lease))
}

func (l *locked) Open(url string) (database.Driver, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	opened, err := l.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return Driver(opened, l.lock, l.opts...), nil
}

func (l *locked) Run(migration io.Reader) error {
	return l.guard("run", func() error { return l.Driver.Run(migration) })
}

func (l *locked) SetVersion(version int, dirty bool) error {
	return l.guard("set the version", func() error { return l.Driver.SetVersion(version, dirty) })
}

func (l *locked) Drop() error {
	return l.guard("drop", l.Driver.Drop)
}

// guard calls f if the lease is valid, and returns an error also if it is not any more when f
// returns.
func (l *locked) guard(op string, f func() error) error {
	lease := l.held()
	if lease == nil {
		return &notLockedError{op}
	}
	if err := lease.Err(); err != nil {
		return fmt.Errorf("redlockmigrate: %s: nothing was executed, since the lock is not held any more: %w", op, err)
	}
	err := f()
	if end := lease.Err(); end != nil {
		err = errors.Join(err, fmt.Errorf("redlockmigrate: %s: it was executed, and meanwhile the lock ended; "+
			"see whether another process has begun to migrate: %w", op, end))
	}
	return err
}

// notLockedError is a statement without a Lock. database.ErrNotLocked, whose text is of an Unlock, is
// found in it.
type notLockedError struct{ op string }

func (e *notLockedError) Error() string {
	return fmt.Sprintf("redlockmigrate: %s: nothing was executed, since the driver is not locked: "+
		"call its Lock before, and Unlock behind; a migrate.Migrate does both", e.op)
}

func (e *notLockedError) Unwrap() error { return database.ErrNotLocked }
