package redlockmigrate

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3/lock"

	"github.com/redlock-go/redlock"
)

// GooseLocker returns a locker for goose.WithLocker: one process at a time migrates. It serves
// any number of Providers, one at a time.
//
// If the lease is lost, goose goes on, and its Up or Down returns an error in which errors.Is
// finds redlock.ErrLost. GooseSessionLocker stops goose earlier.
//
// Lock waits until goose's context ends. Its errors are those of Mutex.Lock, and ErrConfig if m
// is nil. Unlock's are those of Lease.Unlock except ErrNoQuorum, and ErrReleased without a Lock. If
// too few nodes confirm the release, the lock may stay taken for up to a ttl.
func GooseLocker(m *redlock.Mutex) lock.Locker {
	return &gooseLocker{newHolder(m)}
}

type gooseLocker struct{ holder }

func (l *gooseLocker) Lock(ctx context.Context, _ *sql.DB) error {
	_, err := l.acquire(ctx)
	return err
}

func (l *gooseLocker) Unlock(ctx context.Context, _ *sql.DB) error {
	return l.release(ctx)
}

// GooseSessionLocker returns a locker for goose.WithSessionLocker: one process at a time
// migrates. It serves any number of Providers, one at a time.
//
// If the lease is lost, it takes goose's connection away: a statement or transaction that is under
// way goes on, and goose gets sql.ErrConnDone for every further one. So goose's Up or Down stops
// behind the migration under way, and returns an error in which errors.Is finds redlock.ErrLost.
// Migrations in Go without a transaction have connections of their own, and are not stopped
// before they end.
//
// SessionLock waits until goose's context ends. Its errors are those of Mutex.Lock, and
// ErrConfig if m is nil. SessionUnlock's are those of Lease.Unlock except ErrNoQuorum, and
// ErrReleased without a SessionLock. If too few nodes confirm the release, the lock may stay taken
// for up to a ttl.
func GooseSessionLocker(m *redlock.Mutex) lock.SessionLocker {
	return &gooseSessionLocker{holder: newHolder(m), watches: make(chan *watch, 1)}
}

type gooseSessionLocker struct {
	holder
	watches chan *watch // has the one of the caller that holds the lock
}

func (l *gooseSessionLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	lease, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	l.watches <- startWatch(lease, conn)
	return nil
}

func (l *gooseSessionLocker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	select {
	case w := <-l.watches:
		w.stop() // before the release, which is no loss
	default:
	}
	return l.release(ctx)
}

// watch is a goroutine that takes a connection from goose when a lease ends. stop ends it.
type watch struct {
	stopped, ended chan struct{}
}

func startWatch(lease *redlock.Lease, conn *sql.Conn) *watch {
	w := &watch{stopped: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		select {
		case <-lease.Done():
			// From now on goose's calls on the connection fail. Package sql puts it back into the pool
			// when its transaction has ended. Closing the driver's own connection would stop the
			// transaction, too, but drivers need not allow that, and some panic.
			_ = conn.Close()
		case <-w.stopped:
		}
	}()
	return w
}

// stop returns when the goroutine has ended: at the latest when the transaction on the
// connection has.
func (w *watch) stop() {
	close(w.stopped)
	<-w.ended
}
