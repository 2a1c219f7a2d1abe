package redlockcertmagic

import (
	"context"

	"github.com/redlock-go/redlock"
)

// slot is a name in this process. Its life: the first caller that asks for the name makes it;
// one caller at a time takes it, from its Lock to its Unlock; the last caller that leaves it
// removes it.
type slot struct {
	taken chan struct{} // has its one element while a caller has the slot

	// Storage.mu protects these.
	callers  int            // that have the slot, or ask for it
	lease    *redlock.Lease // of the caller that has the slot; nil before its grant and from its Unlock on
	reported bool           // RenewLockLease has returned that the lease is lost
}

// enter returns the slot of a name. leave or free must follow.
func (s *Storage) enter(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.slots[name]
	if found == nil {
		found = &slot{taken: make(chan struct{}, 1)}
		s.slots[name] = found
	}
	found.callers++
	return found
}

// await takes the slot, and waits until it is free. It reports false if ctx ends before. A free slot is taken also
// if ctx has ended: then no other caller is to blame, and redlock says what ended ctx.
func (s *slot) await(ctx context.Context) bool {
	select {
	case s.taken <- struct{}{}:
		return true
	default:
	}
	select {
	case s.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave ends what enter began, for a caller that has not taken the slot.
func (s *Storage) leave(name string, slot *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.callers--; slot.callers == 0 {
		delete(s.slots, name)
	}
}

// free ends what enter began, for a caller that has taken the slot.
func (s *Storage) free(name string, slot *slot) {
	<-slot.taken
	s.leave(name, slot)
}

// grant records the lease of the caller that has taken the slot.
func (s *Storage) grant(slot *slot, lease *redlock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot.lease, slot.reported = lease, false
}

// take returns the slot of a name, and the lease, which it removes from the slot: of several
// calls of Unlock one gets it. The lease is nil if no caller holds the lock.
func (s *Storage) take(name string) (*slot, *redlock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.slots[name]
	if found == nil {
		return nil, nil
	}
	lease := found.lease
	found.lease = nil
	return found, lease
}

// holding returns the slot of a name, its lease, and whether the loss of that is reported. The
// lease is nil if no caller holds the lock.
func (s *Storage) holding(name string) (found *slot, lease *redlock.Lease, reported bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found = s.slots[name]; found == nil {
		return nil, nil, false
	}
	return found, found.lease, found.reported
}

// report records that RenewLockLease has returned that the lease is lost.
func (s *Storage) report(slot *slot, lost *redlock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.lease == lost {
		slot.reported = true
	}
}

// replace puts a new lease in the place of a lost one. It returns false if there was an Unlock
// meanwhile.
func (s *Storage) replace(slot *slot, lost, fresh *redlock.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.lease != lost {
		return false
	}
	slot.lease, slot.reported = fresh, false
	return true
}
