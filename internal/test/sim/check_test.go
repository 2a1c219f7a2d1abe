package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// leases returns the visits that got the lock, in the order of their grants.
func (h *simHistory) leases(lock string) []*simVisit {
	var all []*simVisit
	for _, v := range h.visits {
		if v.lease != nil && v.wants(lock) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *simVisit) int { return cmp.Compare(a.answered, b.answered) })
	return all
}

// check returns the violations of a run. A schedule that breaks an assumption may have
// two holders, and is counted as such. In every schedule in which A8 holds, no caller writes with
// another one's token, or with a token lower than one that was handed out before it asked.
func (h *simHistory) check() []string {
	if h.plan.setBack && !h.plan.knows(checksSetBack) {
		return h.checkSafety()
	}
	if h.plan.lists != nil || h.plan.changes {
		return append(h.checkSafety(), h.failures...)
	}
	wrong := slices.Concat(h.failures, h.brokenScripts)
	for _, name := range h.plan.lockNames() {
		leases := h.leases(name)
		if h.outside == "" {
			wrong = append(wrong, h.exclusion(leases, name)...)
			wrong = append(wrong, rests(h, leases, name)...)
			wrong = append(wrong, delays(h, leases, name)...)
		}
		wrong = append(wrong, h.tokens(append(h.seizures(name), leases...))...)
		wrong = append(wrong, losses(leases)...)
		wrong = append(wrong, maxHolds(leases)...)
		wrong = append(wrong, h.revoked(leases, name)...)
		if h.plan.kind != simClocks && !h.plan.uses.lateness {
			wrong = append(wrong, h.progress(leases, name)...)
		}
		wrong = append(wrong, h.order(leases, name)...)
	}
	if h.plan.kind != simClocks {
		wrong = append(wrong, admissions(h)...)
	}
	wrong = append(wrong, checkPermits(h)...)
	wrong = append(wrong, restsOfLeases(h)...)
	wrong = append(wrong, checkTransfers(h)...)
	wrong = append(wrong, untold(h)...)
	wrong = append(wrong, checkBurst(h)...)
	wrong = append(wrong, h.observed()...)
	return append(wrong, h.orphans...)
}

// lockNames returns the names of the locks that callers ask for, but for those of a semaphore's slots.
func (p *simPlan) lockNames() (all []string) {
	for lock := range p.locks {
		all = append(all, fmt.Sprintf("lock-%d", lock))
	}
	if p.line != nil {
		all = append(all, simLineLock)
	}
	return all
}

// exclusion checks that no two leases of a lock are valid at one instant of which one holds it
// alone, except where ForceUnlock took the lock away.
func (h *simHistory) exclusion(leases []*simVisit, lock string) (wrong []string) {
	for i, b := range leases {
		for _, a := range leases[:i] {
			if !a.conflicts(b) || isExcused(h, a, b, lock) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("two holders of %s: %v (token %d) until %v, alone until %v, %v (token %d) from %v, alone until %v",
				lock, a.caller, a.token, a.ended, a.heldAlone().to, b.caller, b.token, b.answered, b.heldAlone().to))
		}
	}
	return wrong
}

// losses checks that a lease whose keys were deleted is not renewed any more.
func losses(leases []*simVisit) (wrong []string) {
	for _, v := range leases {
		if v.robbed > 0 && v.ended > v.robbed+keysLast(v)*11/10 {
			wrong = append(wrong, fmt.Sprintf("%v's keys were deleted at %v; its lease went on until %v", v.caller, v.robbed, v.ended))
		}
	}
	return wrong
}

// tokens checks that a lease that held the lock alone has a greater token than every lease before
// it, that a share has no smaller token than any lease before it that held the lock alone, and
// that no two of these have the same. A token that ForceUnlock returned counts as that of a lease
// that held the lock alone. The tokens of shares have no order among themselves. A pair of leases is
// excused where A8 is broken for the token of the first: see breaksA8.
func (h *simHistory) tokens(leases []*simVisit) (wrong []string) {
	leases = slices.DeleteFunc(leases, func(v *simVisit) bool { return v.lease != nil && !v.terms().Fencing })
	slices.SortStableFunc(leases, func(a, b *simVisit) int { return cmp.Compare(a.answered, b.answered) })
	for i, b := range leases {
		for _, a := range leases[:i] {
			var misplaced bool
			switch s, t := a.token, b.token; {
			case a.reads && b.reads:
			case b.reads:
				misplaced = a.isBefore(b) && s > t
			case a.reads:
				misplaced = a.isBefore(b) && s >= t
			default:
				misplaced = s == t || a.isBefore(b) && s > t
			}
			if misplaced && !h.breaksA8(a, b) {
				wrong = append(wrong, fmt.Sprintf("token %d of %v, granted at %v, after token %d of %v, granted at %v",
					b.token, b.caller, b.answered, a.token, a.caller, a.answered))
			}
		}
	}
	return wrong
}

// isBefore reports whether a lease was granted before another was asked for, or was given up, as
// far as it excluded the other, before the other was granted. Where keys are deleted, the other may
// have been granted at the nodes before, and its keys may have been deleted before its client knew.
func (v *simVisit) isBefore(other *simVisit) bool {
	if v.answered < other.began || v.history.plan.kind == simDeleted {
		return v.answered < other.began
	}
	excluded, gaveUp := v.held(), !v.lost
	if other.reads {
		excluded = v.heldAlone()
		gaveUp = gaveUp || v.sharedAt > 0
	}
	return other.lease != nil && gaveUp && excluded.to < other.answered
}
