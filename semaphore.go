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

// Semaphore is the name of a lock that several callers may hold at once, each with some of its
// permits, and its settings. Like a Mutex it has no state, is safe for concurrent use, and cheap to
// make anew for every use.
//
// A semaphore of K permits has K slots, numbered from 0, and a permit is a lease on one of them.
// Each slot is a lock of its own: that of the Mutex with the semaphore's name, "#", and the slot's
// number. So a permit is as exclusive as a Mutex, and has a token of its own.
type Semaphore struct {
	locker
	permits int
}

// Permit is one of the permits that a lease holds.
type Permit struct {
	Slot  int   // which of the semaphore's slots, from 0; no other valid lease has it
	Token int64 // its fencing token, which orders the leases of this slot; 0 where WithFencing is off
}

// HeldPermit is a permit of a semaphore that somebody holds, as the nodes show it. Nothing at the nodes
// says how many permits there are: a Slot that is not below your number is of a client that
// gives a greater one.
type HeldPermit struct {
	Slot      int
	Owner     string        // of the lease that has it; "(readers)" or "(a key of another type)" where no Semaphore made the key
	Label     string        // the readable part of the owner; "" if there is none
	Remaining time.Duration // until a quorum no longer has it, unless it is renewed; 0 if no quorum has it; negative: never
	Nodes     int           // the nodes that have it
	Token     int64         // the greatest count of the slot: no lease of it has a greater token yet
}

// Semaphore names a semaphore of 1 to 256 permits. opts override the client's for this Semaphore. Acquire,
// TryAcquire and Do return ErrConfig for bad ones, for a bad number of permits, and where WithMinHold, WithLockDelay
// or WithWanted is set, also by New or Open. WithReentry has no effect. Semaphore does not touch the nodes.
//
// All callers should give the same number of permits. If they do not, which is so while a
// new number is rolled out, no more permits are held than the greatest of them, and holders
// of slots beyond a smaller number keep them until they release them. Waiter.Limit shows the number of each waiter.
//
// A semaphore and a Mutex of the same name have nothing to do with each other. Its name is four
// bytes shorter than a Mutex's may be.
func (c *Client) Semaphore(name string, permits int, opts ...Option) *Semaphore {
	s := &Semaphore{locker: c.newLocker(name, opts), permits: permits}
	s.name = s.bound(s.name, protocol.MaxSlotMark) // its slots are locks with names
	if permits < 1 || permits > lock.MaxPermits {
		s.err = configError("the semaphore %q has %d permits: it must have 1 to %d", printable.Cut(s.name), permits, lock.MaxPermits)
	}
	s.check(s.opts.prefix + s.name)
	if s.err == nil {
		s.err = s.opts.checkAlone("permits of a semaphore")
	}
	if s.err == nil && s.opts.wanted {
		s.err = configError("permits of a semaphore cannot have WithWanted: all holders would let go for one caller that waits")
	}
	return s
}

// Acquire acquires n permits, all at once or none. If fewer are free, it stands in the semaphore's
// wait queue with the callers of all clients, first come, first served: a caller that wants many
// is not passed by later ones that want few. ctx bounds the waiting, not the holding: give
// it a deadline.
//
// All n permits are one Lease: they are renewed, lost and released together. They have one token, which is greater
// than every earlier one of each of these slots. Tokens of different slots have no order, so what the semaphore protects
// must keep one number for each slot, and compare it with the Token of that slot in Lease.Permits.
//
// Errors: those of Mutex.Lock, and ErrConfig if n is less than 1 or more than the semaphore's
// permits. ErrHeld at once where ctx is that of leases of this very semaphore, and n and their
// permits together are more than there are: to wait would be to wait for itself.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	r, err := s.request(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.acquire(ctx, "acquire", r.lock.Acquire)
}

// TryAcquire acquires n permits without waiting for a holder. It gives way to callers that wait. It
// takes as long as Mutex.TryLock.
//
// Errors: those of Mutex.TryLock, and ErrConfig as Acquire; a *HeldError has Permits set where too few
// permits are free.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	r, err := s.request(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.acquire(ctx, "tryacquire", r.lock.TryAcquire)
}

// Do acquires n permits, runs fn, and releases them, as Mutex.Do does with a lock. Errors:
// Acquire's, or fn's, as Mutex.Do returns them.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// request returns a lock of n permits.
func (s *Semaphore) request(ctx context.Context, n int) (*locker, error) {
	if s.err != nil {
		return nil, s.err
	}
	if n < 1 || n > s.permits {
		return nil, configError("%d permits of the semaphore %q, which has %d: a caller must ask for at least 1, and not for more", n, printable.Cut(s.name), s.permits)
	}
	r := s.of(n)
	if held := permitsUnder(ctx, r); held+n > s.permits && ctx.Err() == nil && !s.client.life.IsClosing() {
		return nil, &waitError{op: "acquire", name: s.name, cause: fmt.Errorf("%w by this very caller: its context is that of leases "+
			"with %d of the %d permits, so waiting for %d more would be for itself; ask for all of them at once", ErrHeld, held, s.permits, n)}
	}
	return r, nil
}

// of makes a lock of n permits. Every call has one of its own, since the slots that it gets are its
// own.
func (s *Semaphore) of(n int) *locker {
	r := s.locker
	r.permits = new(lock.Permits)
	r.permits.Init(s.client.locks, s.opts.terms, s.opts.prefix, s.name, s.permits, n)
	r.lock = &r.permits.Lock
	return &r
}

// permitsUnder returns how many permits of a semaphore are held under a context.
func permitsUnder(ctx context.Context, r *locker) (permits int) {
	for h, _ := ctx.Value(heldKey{}).(*heldLease); h != nil; h = h.outer {
		if l := h.lease; l.lock.client == r.client && lock.Overlap(l.lock.lock.Keys(), r.lock.Keys()) && l.Err() == nil {
			permits += len(l.lock.permits.Slots())
		}
	}
	return permits
}

// Permits are those that a Semaphore's lease has, in the order in which the nodes chose them; nil of
// other leases.
func (l *Lease) Permits() []Permit {
	if l.lock.permits == nil {
		return nil
	}
	var all []Permit
	for _, slot := range l.lock.permits.Slots() {
		all = append(all, Permit{Slot: slot, Token: l.Token()})
	}
	return all
}

// permitsAt returns the permits that are held at one node.
func permitsAt(slots []lock.Slot) (held []HeldPermit) {
	for _, slot := range slots {
		owner, _ := protocol.CutResting(slot.Value)
		switch {
		case protocol.IsReservation(slot.Value):
			continue // for a waiter of the Mutex of this slot
		case slot.Value == protocol.Shared:
			owner = "(readers)"
		}
		held = append(held, HeldPermit{Slot: slot.Number, Owner: owner, Label: protocol.LabelOf(owner), Remaining: slot.Remaining, Nodes: 1, Token: slot.Count})
	}
	return held
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
		p := HeldPermit{Slot: c.slot, Owner: c.owner, Label: protocol.LabelOf(c.owner), Nodes: len(left), Remaining: quorumEnds(left, quorum), Token: tokens[c.slot]}
		s.Permits = append(s.Permits, p)
	}
	slices.SortFunc(s.Permits, func(a, b HeldPermit) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Owner, b.Owner))
	})
}
