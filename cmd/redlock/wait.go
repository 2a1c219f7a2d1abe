package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
)

// mutex returns the lock, or its side, that the command is to hold.
func (f *runFlags) mutex(client *redlock.Client, names []string) *redlock.Mutex {
	switch {
	case f.read:
		return client.RWMutex(names[0]).RLocker()
	case len(names) > 1:
		return client.Multi(names, f.options()...)
	}
	return client.Mutex(names[0], f.options()...)
}

// lock returns the function that takes the lock.
func (f *runFlags) lock(client *redlock.Client, names []string) func(context.Context) (*redlock.Lease, error) {
	if f.permits > 0 {
		s := client.Semaphore(names[0], f.permits)
		acquire := s.Acquire
		if f.noWait {
			acquire = s.TryAcquire
		}
		return func(ctx context.Context) (*redlock.Lease, error) { return acquire(ctx, f.take) }
	}
	m := f.mutex(client, names)
	if f.noWait {
		return m.TryLock
	}
	return m.Lock
}

// options returns the options of a mutex.
func (f *runFlags) options() (opts []redlock.LockOption) {
	if f.minHold > 0 {
		opts = append(opts, redlock.WithMinHold(f.minHold))
	}
	if f.announce {
		opts = append(opts, redlock.WithAnnounce())
	}
	return opts
}

// errWaited ends the wait when the time of --wait is over.
var errWaited = errors.New("the time of --wait is over")

// interrupted is a signal that ended the wait.
type interrupted struct{ sig os.Signal }

func (e *interrupted) Error() string { return "ended by signal: " + e.sig.String() }

// interruption returns the error of a call that a signal ended: what redlock was doing, and the signal. If the call
// got the lease at the same time, interruption releases it. It returns nil if no signal ended the call.
func interruption(ctx context.Context, lease *redlock.Lease, doing string) error {
	var end *interrupted
	if !errors.As(context.Cause(ctx), &end) {
		return nil
	}
	if lease != nil {
		_ = lease.Unlock(context.Background())
	}
	return &exit{code: signalCode(end.sig), why: fmt.Errorf("%s: %w", doing, end), by: end.sig}
}

// acquire takes the lock, within the time that the flags allow. A signal ends the wait. If
// announce is set, a message says what redlock waits for.
func (r *runner) acquire(client *redlock.Client, names []string, announce bool) (*redlock.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	bounded := ctx
	if r.flags.wait > 0 {
		var stop context.CancelFunc
		bounded, stop = context.WithTimeoutCause(ctx, r.flags.wait, errWaited)
		defer stop()
	}
	var beside sync.WaitGroup
	over := make(chan struct{})
	beside.Go(func() { r.cancelOnSignal(over, cancel) })
	if announce && !r.flags.noWait {
		beside.Go(func() { r.announce(bounded, over, client, names) })
	}
	lock := r.flags.lock(client, names)
	lease, err := lock(bounded)
	for err == nil && !r.awaitValidity(lease) {
		lease, err = lock(bounded)
	}
	close(over)
	beside.Wait()

	if err := interruption(ctx, lease, fmt.Sprintf("waiting for %q", strings.Join(names, ", "))); err != nil {
		return nil, err
	}
	if errors.Is(err, errWaited) && !errors.Is(err, redlock.ErrHeld) {
		return nil, &exit{code: codeNoQuorum, why: err}
	}
	return lease, err
}

// awaitValidity waits until more validity is left than --stop-before: a lease that was
// handed off is short until its first renewal. It returns false if the lease was lost.
func (r *runner) awaitValidity(lease *redlock.Lease) bool {
	for lease.Remaining() <= r.flags.stopBefore {
		select {
		case <-lease.Done():
			return false
		case <-time.After(time.Millisecond): // it renews itself
		}
	}
	return true
}

// cancelOnSignal cancels the wait at a signal that asks redlock to end.
func (r *runner) cancelOnSignal(over <-chan struct{}, cancel context.CancelCauseFunc) {
	for {
		select {
		case sig := <-r.signals:
			if asksToEnd(sig) {
				cancel(&interrupted{sig})
			}
		case <-over:
			return
		}
	}
}

// announce prints, once, what redlock waits for.
func (r *runner) announce(ctx context.Context, over <-chan struct{}, client *redlock.Client, names []string) {
	// The second look is for locks that nobody holds: a slow machine must not make redlock talk.
	for _, pause := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		select {
		case <-time.After(pause):
		case <-over:
			return
		}
		if r.announceHeld(ctx, client, names) {
			return
		}
	}
	r.print("waiting for %q: nobody holds it, but too few nodes may vote yet, or another waiter comes first",
		strings.Join(names, ", "))
}

// announceHeld prints which of the names is held, or why that cannot be learned, and reports whether it printed.
func (r *runner) announceHeld(ctx context.Context, client *redlock.Client, names []string) bool {
	for _, name := range names {
		s, err := client.Inspect(ctx, name)
		if err != nil {
			r.print("waiting for %q: %s", name, withoutName(err))
			return true
		}
		if r.flags.permits > 0 && r.announcePermits(name, s) || r.flags.permits == 0 && r.announceHolders(name, s) {
			return true
		}
	}
	return false
}

// announcePermits prints how many permits of a semaphore are held, and reports whether any is.
func (r *runner) announcePermits(name string, s redlock.Status) bool {
	held := len(overview.HeldPermits(s))
	if held > 0 {
		r.print("waiting for %s of %q: %d of %d are held, %d in the wait queue", counted(r.flags.take, "permit"), name,
			held, r.flags.permits, len(s.Queue))
	}
	return held > 0
}

// announceHolders prints who holds a lock, or that it rests, and reports whether it is so.
func (r *runner) announceHolders(name string, s redlock.Status) bool {
	readers := overview.HoldingReaders(s)
	switch {
	case s.Resting:
		r.print("waiting for %q: it rests after %s, %s, %d in the wait queue", name,
			overview.OwnerLabel(s.Holder), remains(s.Remaining), len(s.Queue))
	case s.Holder != "":
		r.print("waiting for %q: %s holds it, %d in the wait queue", name,
			overview.OwnerLabel(s.Holder), len(s.Queue))
	case len(readers) == 1:
		r.print("waiting for %q: 1 reader holds it, %d in the wait queue", name, len(s.Queue))
	case len(readers) > 1:
		r.print("waiting for %q: %s hold it, %d in the wait queue", name, countReaders(s), len(s.Queue))
	default:
		return false
	}
	return true
}
