package redlockmigrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlock-go/redlock"
)

// holder has the lock for one caller of this process at a time, from acquire to release, also if
// the lease is lost meanwhile: goose does not say which of two callers releases.
type holder struct {
	lock  *redlock.Mutex
	lease chan *redlock.Lease // has the lease of the caller that holds the lock
	taken chan struct{}       // has its one element while a caller holds the lock, or asks for it
}

func newHolder(m *redlock.Mutex) holder {
	return holder{lock: m, lease: make(chan *redlock.Lease, 1), taken: make(chan struct{}, 1)}
}

// acquire returns a lease, and waits for it until ctx ends.
func (h *holder) acquire(ctx context.Context) (*redlock.Lease, error) {
	if h.lock == nil {
		return nil, errNoMutex
	}
	select {
	case h.taken <- struct{}{}: // also if ctx has ended: then no other caller is to blame
	default:
		select {
		case h.taken <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("redlockmigrate: lock: gave up while another caller of this process migrates: %w", context.Cause(ctx))
		}
	}
	lease, err := h.lock.Lock(ctx)
	if err != nil {
		<-h.taken
		return nil, fmt.Errorf("redlockmigrate: lock: %w", err)
	}
	h.lease <- lease
	return lease, nil
}

// release ends the lease. It returns why, if that had ended before.
func (h *holder) release(ctx context.Context) error {
	select {
	case lease := <-h.lease:
		err := unlock(ctx, lease)
		<-h.taken
		return err
	default:
		return fmt.Errorf("redlockmigrate: unlock: no caller of this process holds the lock: %w", redlock.ErrReleased)
	}
}

// unlock ends a lease, and returns why it had ended before. It does not return ErrNoQuorum, as Mutex.Do does not: the lock was held to the
// end, so the migration is as good as any, and the lock is free after a ttl at the latest. A program
// would take the error for one of the migration, and a migrate.Migrate would lock no more.
func unlock(ctx context.Context, lease *redlock.Lease) error {
	if err := lease.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return fmt.Errorf("redlockmigrate: unlock: %w", err)
	}
	return nil
}

var errNoMutex = fmt.Errorf("redlockmigrate: %w: the Mutex is nil; give one of Client.Mutex", redlock.ErrConfig)
