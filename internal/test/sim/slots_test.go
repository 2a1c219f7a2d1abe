package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Each slot of a semaphore is a lock of its own. Callers ask for it beside the semaphore's: alone, as
// readers, and together with other locks. Clients may give the semaphore different numbers of
// permits.

// drawSlots decides whether the slots of the semaphore are locked, and taken away, by their names. Most
// plans with such slots have few: so permits and locks meet.
func drawSlots(p *simPlan, draw *rand.Rand) {
	slots, forces := draw.IntN(4) == 0, draw.IntN(5) == 0
	if slots && p.uses.permits == 0 {
		p.uses.permits = 1 + draw.Uint64N(3)
	}
	p.uses.slots = slots
	p.uses.forceSlots = forces && p.uses.permits > 0
}

// drawSizes gives each client a number of permits of its own.
func drawSizes(p *simPlan, draw *rand.Rand) {
	if p.uses.permits == 0 || draw.IntN(3) > 0 {
		return
	}
	for range p.clients {
		p.uses.sizes = append(p.uses.sizes, max(1, p.uses.permits+draw.Uint64N(4)-1))
	}
}

// size returns how many permits a client gives the semaphore; 0: there is none.
func (p *simPlan) size(client int) uint64 {
	if len(p.uses.sizes) > 0 {
		return p.uses.sizes[client]
	}
	return p.uses.permits
}

// sizeMost returns the greatest number of permits that a client gives the semaphore.
func (p *simPlan) sizeMost() int {
	return int(slices.Max(append(slices.Clone(p.uses.sizes), p.uses.permits)))
}

// slotName returns the name of the lock of a slot.
func slotName(slot int) string { return fmt.Sprint(simSemaphore, protocol.SlotMark, slot) }

// slotFor returns the lock of a slot for a turn, alone or as a reader, or a set of which it is one.
func slotFor(c *simCaller, turn uint64, opts []redlock.LockOption) simLock {
	p := c.client.run.plan
	slot := int(c.roll(turn, 121, uint64(p.sizeMost())))
	opts = append(opts, withRandom(c.random))
	client := c.client.client
	switch c.roll(turn, 122, 5) {
	case 0, 1:
		return client.Mutex(slotName(slot), opts...)
	case 2:
		return client.RWMutex(slotName(slot), opts...).RLocker()
	case 3:
		return client.Multi([]string{slotName(slot), fmt.Sprintf("lock-%d", c.roll(turn, 123, uint64(p.locks)))}, opts...)
	}
	return client.Multi(slices.Compact([]string{slotName(slot), slotName((slot + 1) % p.sizeMost())}), opts...)
}

// leasesOfSlot returns the leases that had a slot, by whatever call, in the order of their grants.
func leasesOfSlot(h *simHistory, slot int) (all []*simVisit) {
	for _, v := range h.visits {
		if v.lease != nil && (v.wants(slotName(slot)) || hasSlot(v, slot)) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *simVisit) int { return cmp.Compare(a.answered, b.answered) })
	return all
}

// hasSlot reports whether a lease has a slot as a permit.
func hasSlot(v *simVisit, slot int) bool {
	return slices.Contains(v.lease.Slots(), slot)
}

// hasSlotOf reports whether a lease has permits whose slots a call asks for by their names.
func hasSlotOf(v, call *simVisit) bool {
	return v.lease != nil && slices.ContainsFunc(v.lease.Slots(), func(slot int) bool { return call.wants(slotName(slot)) })
}

// isForcedSlot reports whether ForceUnlock may have taken a slot from a lease of permits.
func isForcedSlot(h *simHistory, v *simVisit) bool {
	return slices.ContainsFunc(h.forced, func(f *simForce) bool {
		return v.began <= f.answered && f.called <= v.ended && slices.ContainsFunc(v.lease.Slots(), func(slot int) bool { return slotName(slot) == f.lock })
	})
}

// checkSlots returns the violations of the slots: those that two leases had at one instant, or that
// the semaphore does not have, tokens that are not in the order of a slot's leases, and leases that go on
// though ForceUnlock took a slot away. Callers of a slot's lock do not wait for long while it is free.
func checkSlots(h *simHistory) (wrong []string) {
	p := h.plan
	for slot := range int(protocol.MaxPermits) {
		leases, name := leasesOfSlot(h, slot), slotName(slot)
		if slot >= p.sizeMost() && len(leases) == 0 {
			break
		}
		for _, v := range leases {
			if size := int(p.size(v.caller.client.index)); permitsOf(v) > 0 && slot >= size {
				wrong = append(wrong, fmt.Sprintf("%v has slot %d of %d", v.caller, slot, size))
			}
		}
		if h.outside == "" {
			wrong = append(wrong, h.exclusion(leases, name)...)
		}
		wrong = append(wrong, h.tokens(append(h.seizures(name), leases...))...)
		wrong = append(wrong, h.revoked(leases, name)...)
		if p.uses.slots && p.kind != simClocks && !p.uses.lateness {
			wrong = append(wrong, h.progress(leases, name)...)
		}
	}
	return wrong
}
