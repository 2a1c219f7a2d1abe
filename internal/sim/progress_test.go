package sim

import (
	"fmt"
	"slices"
	"time"
)

// idleness returns for how long a lock may be free while a caller waits.
func (p *simPlan) idleness() time.Duration {
	longest := p.longest()
	if p.uses.longer {
		longest = p.longerThan(longest)
	}
	return 3*time.Second + longest
}

// progress checks that a lock is not free for long while a caller waits for it, and a
// majority of the nodes is well for that caller's client; and that readers who hold it do not
// keep a reader waiting for as long.
func (h *simHistory) progress(leases []*simVisit, lock string) (wrong []string) {
	taken := h.taken(leases, (*simVisit).held)
	alone := h.taken(leases, (*simVisit).heldAlone)
	for _, c := range h.run.clients {
		starved := h.run.wellness.starved(c.index, h.plan.nodes, h.plan.quorum())
		for _, at := range h.run.wellness.shaken {
			starved = append(starved, simSpan{at, at})
		}
		for _, v := range h.visits {
			if v.caller.client != c || v.name() != lock || !v.waits {
				continue
			}
			excuses := append(slices.Clip(starved), taken...)
			if v.reads {
				excuses = slices.Concat(starved, alone, h.writersAhead(v))
			}
			end := v.answered
			if c.diedAt > 0 {
				end = min(end, c.diedAt)
			}
			if free := merged(excuses).longest(max(v.called, h.plan.calm), end); free.to-free.from > h.plan.idleness() {
				wrong = append(wrong, fmt.Sprintf("nobody had %s (alone, or before a reader: %t) for %v, from %v on, while %v waited, for whom a majority was well",
					lock, v.reads, free.to-free.from, free.from, v.caller))
			}
		}
	}
	return wrong
}

// taken returns when a lock is held. The keys of a client that died stay until they end.
func (h *simHistory) taken(leases []*simVisit, held func(*simVisit) simSpan) (times simSpans) {
	for _, l := range leases {
		span := held(l)
		if died := l.caller.client.diedAt; died > 0 && died <= l.ended && span.to > span.from {
			span.to = max(span.to, died+l.terms().Lease.TTL*102/100)
		}
		times = append(times, span)
	}
	return merged(times)
}

// writersAhead returns when a reader's turn had not come since a writer waited that had asked
// before it. The tickets of a client that died stay for as long as it may count as alive.
func (h *simHistory) writersAhead(v *simVisit) (times simSpans) {
	for _, w := range h.visits {
		if w.reads || !w.waits || w.name() != v.name() || w.called > v.called+simHeadStart {
			continue
		}
		to := w.answered
		if died := w.caller.client.diedAt; died > 0 && died <= to {
			to = died + h.plan.countsAsAlive()
		}
		times = append(times, simSpan{w.called, to})
	}
	return times
}

// countsAsAlive returns for how long after its death a client may count as alive where others
// hold the lock, so that nobody challenges it: by the position of its last waiter.
func (p *simPlan) countsAsAlive() time.Duration {
	last := time.Second
	for _, n := range p.callers {
		last += time.Duration(n) * 2500 * time.Millisecond
	}
	return last
}

// order checks that callers that asked a good while later do not pass a waiter again and
// again, in plans where only a minority of the nodes ever fails, and while the waiter's
// client reaches the others.
func (h *simHistory) order(leases []*simVisit, lock string) (wrong []string) {
	for _, v := range h.visits {
		c := v.caller.client
		if v.name() != lock || !v.waits || v.called < h.plan.calm || c.diedAt > 0 ||
			h.run.wellness.starved(c.index, h.plan.nodes, h.plan.quorum()).touch(v.called, v.answered) {
			continue
		}
		if passed := v.passedBy(leases); passed > simPasses {
			wrong = append(wrong, fmt.Sprintf("%v, which asked for %s at %v, was passed by %d later ones", v.caller, lock, v.called, passed))
		}
	}
	return wrong
}

// passedBy returns how often callers that asked later got the lock before the waiter. Readers
// that enter together count as one: those that asked before the first of them had entered.
// Readers do not pass each other; those that do not wait must not pass a writer either.
func (v *simVisit) passedBy(leases []*simVisit) (passed int) {
	var entered time.Duration  // when the last readers did that count
	for _, l := range leases { // by their grants
		if !l.waits && !l.reads || l.called <= v.called+simHeadStart || l.answered <= v.called || l.answered >= v.answered || l.reads && v.reads {
			continue
		}
		if l.reads {
			if l.called <= entered {
				continue
			}
			entered = l.answered
		}
		passed++
	}
	return passed
}

const (
	simHeadStart = 200 * time.Millisecond
	simPasses    = 3
)
