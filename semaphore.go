package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Semaphore is the name and the settings of a lock whose permits several callers may hold at once.
// It has no state, and is safe for concurrent use. See docs/primitives.md, Permits.
type Semaphore struct {
	locker
	permits int
}

// PermitStatus is a permit that is held, as the nodes show it.
type PermitStatus struct {
	Slot      int           // not below your number of permits where another client gives a greater one
	Owner     string        // of the lease; "(readers)" or "(a key of another type)" where no Semaphore made the key
	Label     string        // the readable part of Owner, or ""
	Since     time.Time     // when it was granted, as Status.Since
	Remaining time.Duration // until a quorum no longer has it, unless renewed; 0: no quorum has it; negative: never
	Nodes     int           // the nodes that have it
	Token     int64         // the greatest of the slot so far
}

// Semaphore returns the Semaphore of a name, with 1 to 256 permits. All callers should give the
// same number. Calls return ErrConfig as for Client.Mutex (the name is four bytes shorter), for a
// bad number, and where WithMinHold, WithLockDelay or WithWanted is set.
func (c *Client) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	s := &Semaphore{locker: c.newLocker(permitKind, name, opts), permits: permits}
	s.name = s.bound(s.name, protocol.MaxSlotMark) // its slots are locks with names
	if permits < 1 || permits > lock.MaxPermits {
		s.err = configError("the semaphore %q has %d permits: it must have 1 to %d", printable.Cut(s.name), permits, lock.MaxPermits)
	}
	s.check(s.opts.prefix + s.name)
	s.checkKind()
	return s
}

// Acquire acquires n permits as one Lease, all or none, and waits in the queue while too few are
// free. The token is greater than every earlier one of each of Lease.Slots.
//
// Errors: those of Mutex.Lock; ErrConfig if n is bad; ErrHeld at once where n and the permits of
// ctx's leases are more than there are.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.request(n).acquire(ctx, true, s.opts.wait)
}

// TryAcquire acquires n permits, as Mutex.TryLock acquires a lock. It gives way to waiters. It
// returns ErrConfig if n is bad.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.request(n).acquire(ctx, false, 0)
}

// Do is Mutex.Do with n permits, by Acquire.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is Mutex.TryDo with n permits, by TryAcquire.
func (s *Semaphore) TryDo(ctx context.Context, n int, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := s.TryAcquire(ctx, n)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// request makes a lock of n permits. Every call has one of its own, since the slots that it gets are its
// own.
func (s *Semaphore) request(n int) *locker {
	r := s.locker
	if n < 1 || n > s.permits {
		r.err = cmp.Or(r.err, configError("%d permits of the semaphore %q, which has %d: a caller must ask for at least 1, "+
			"and not for more", n, printable.Cut(s.name), s.permits))
		return &r
	}
	r.permits = new(lock.Permits)
	r.permits.Init(s.client.locks, s.opts.terms, s.opts.prefix, s.name, s.permits, n)
	r.lock = &r.permits.Lock
	return &r
}

// checkPermits returns an error if a caller that has these leases would wait for itself: their permits of the
// semaphore, and those that it asks for, are more than there are.
func (m *locker) checkPermits(held *heldLease) error {
	has := 0
	for h := held; h != nil; h = h.outer {
		if l := h.lease; l.lock.client == m.client && lock.Overlap(l.lock.lock.Keys(), m.lock.Keys()) && l.Err() == nil {
			has += len(l.lock.permits.Slots())
		}
	}
	n, all := m.permits.Asked()
	if has+n <= all {
		return nil
	}
	return fmt.Errorf("%w by this very caller: its context is that of leases "+
		"with %d of the %d permits, so waiting for %d more would be for itself; ask for all of them at once", ErrHeld, has, all, n)
}

// Slots returns the numbers of the permits that the lease holds, from 0; nil for other leases.
func (l *Lease) Slots() []int {
	if l.lock.permits == nil {
		return nil
	}
	return slices.Clone(l.lock.permits.Slots())
}

// permitsAt returns the permits that are held at one node.
func permitsAt(slots []protocol.Slot) (held []PermitStatus) {
	for _, slot := range slots {
		owner, _ := protocol.CutResting(slot.Value)
		switch {
		case protocol.IsReservation(slot.Value):
			continue // for a waiter of the Mutex of this slot
		case slot.Value == protocol.Shared:
			owner = "(readers)"
		}
		held = append(held, permitStatus(slot.Number, owner, 1, slot.Remaining, slot.Count))
	}
	return held
}

// permitStatus returns what so many nodes show of a permit.
func permitStatus(slot int, owner string, nodes int, remaining time.Duration, token int64) PermitStatus {
	return PermitStatus{Slot: slot, Owner: owner, Label: protocol.LabelOf(owner), Since: protocol.SinceOf(owner), Nodes: nodes,
		Remaining: remaining, Token: token}
}

// sumPermits sets the permits that are held, from those of the nodes.
func (s *Status) sumPermits(quorum int) {
	type claim struct {
		slot  int
		owner string
	}
	left, tokens := make(map[claim][]time.Duration), make(map[int]int64)
	for i := range s.Nodes {
		for _, p := range s.Nodes[i].Permits {
			left[claim{p.Slot, p.Owner}] = append(left[claim{p.Slot, p.Owner}], p.Remaining)
			tokens[p.Slot] = max(tokens[p.Slot], p.Token)
		}
	}
	s.Permits = nil
	for c, left := range left {
		p := permitStatus(c.slot, c.owner, len(left), protocol.QuorumEnds(left, quorum), tokens[c.slot])
		s.Permits = append(s.Permits, p)
	}
	slices.SortFunc(s.Permits, func(a, b PermitStatus) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Owner, b.Owner))
	})
}
