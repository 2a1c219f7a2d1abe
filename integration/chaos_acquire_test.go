package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/chaos"
)

// lock asks for a lock, for a share of it, or for several locks, with or without waiting. It
// returns no lease and no error if it was refused.
func (v *visitor) lock(ctx context.Context, names []string, shared bool) (*redlock.Lease, error) {
	mutex := v.client.Mutex(names[0], anyOptions()...)
	switch {
	case shared:
		mutex = v.client.RWMutex(names[0], anyOptions()...).RLocker()
	case len(names) > 1:
		mutex = v.client.Multi(names, anyOptions()...)
	}
	op := chaos.Op{Name: strings.Join(names, ", "), Set: len(names) > 1}
	return v.acquire(ctx, op, mutex.Lock, mutex.TryLock)
}

// acquirePermits asks for permits, as lock does for a lock. A permit is a lease on a slot, which is a
// lock of its own: so the history of a lease of permits is that of a set of such locks.
func (v *visitor) acquirePermits(ctx context.Context, semaphore string, n int) (*redlock.Lease, error) {
	s := v.client.Semaphore(semaphore, chaosPermits, anyOptions()...)
	acquire := func(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, n) }
	try := func(ctx context.Context) (*redlock.Lease, error) { return s.TryAcquire(ctx, n) }
	lease, err := v.acquire(ctx, chaos.Op{Name: semaphore, Permits: n}, acquire, try)
	if lease == nil {
		return nil, err
	}
	slots := lease.Slots()
	if len(slots) != n {
		return nil, fmt.Errorf("%d permits were asked for, and the lease has the slots %v", n, slots)
	}
	for _, slot := range slots {
		if slot < 0 || slot >= chaosPermits {
			return nil, fmt.Errorf("the lease has a slot that there is not: %v", slots)
		}
	}
	return lease, err
}

func anyOptions() (opts []redlock.LockOption) {
	if rand.N(3) == 0 { // a lease without renewals does not get its keys back
		opts = append(opts, redlock.WithoutRenewal())
	}
	return opts
}

// semaphoreOf returns the name of the semaphore of a kind of place, and slotOf that of the lock
// that a slot of it is.
func semaphoreOf(kind string) string { return kind + "-permits" }

func slotOf(kind string, slot int) string { return fmt.Sprint(semaphoreOf(kind), "#", slot) }

// locksOf returns the names of the locks that a lease holds: of permits, those of their slots.
func locksOf(lease *redlock.Lease) []string {
	slots := lease.Slots()
	if slots == nil {
		return lease.Names()
	}
	var names []string
	for _, slot := range slots {
		names = append(names, fmt.Sprint(lease.Name(), "#", slot))
	}
	return names
}

// acquire asks with or without waiting. op says for what.
func (v *visitor) acquire(ctx context.Context, op chaos.Op, wait, try func(context.Context) (*redlock.Lease, error)) (*redlock.Lease, error) {
	timeout := rand.N(3 * time.Second)
	if rand.N(2) == 0 {
		timeout = rand.N(200 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond+timeout)
	defer cancel()
	call := wait
	if rand.N(2) == 0 {
		call = try
	}
	op.Kind, op.Call = chaos.Acquire, chaos.Now()
	lease, err := call(ctx)
	op.Return = chaos.Now()
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		op.Kind, op.Note = chaos.Refused, "no quorum"
		return nil, v.log.Add(op)
	case errors.Is(err, redlock.ErrHeld):
		op.Kind, op.Note = chaos.Refused, "held"
		return nil, v.log.Add(op)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		op.Kind, op.Note = chaos.Refused, "out of time before the first verdict"
		return nil, v.log.Add(op)
	default:
		return nil, err
	}
	op.Name = ""
	op = opOf(lease, op)
	op.Until = op.Call
	if left := lease.Remaining(); left > 0 {
		// The ballot that granted it began when the validity did: after the call,
		// if it had to wait.
		op.Until = op.Return + left
		op.Call = min(op.Return, max(op.Call, op.Until-chaosValidity))
	}
	return lease, v.log.Add(op)
}
