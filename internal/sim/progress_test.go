package sim

import (
	"fmt"
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
// majority of the nodes is well for that caller's client.
func (h *simHistory) progress(leases []*simVisit, lock string) (wrong []string) {
	taken := h.taken(leases)
	for _, c := range h.run.clients {
		times := append(h.run.wellness.starved(c.index, h.plan.nodes, h.plan.quorum()), taken...)
		for _, at := range h.run.wellness.shaken {
			times = append(times, simSpan{at, at})
		}
		times = merged(times)
		for _, v := range h.visits {
			if v.caller.client != c || v.name() != lock || !v.waits {
				continue
			}
			end := v.answered
			if c.diedAt > 0 {
				end = min(end, c.diedAt)
			}
			if free := times.longest(max(v.called, h.plan.calm), end); free.to-free.from > h.plan.idleness() {
				wrong = append(wrong, fmt.Sprintf("nobody had %s for %v, from %v on, while %v waited, for whom a majority was well",
					lock, free.to-free.from, free.from, v.caller))
			}
		}
	}
	return wrong
}

// taken returns when a lock is held. The keys of a client that died stay until they end.
func (h *simHistory) taken(leases []*simVisit) (times simSpans) {
	for _, l := range leases {
		to := l.ended
		if died := l.caller.client.diedAt; died > 0 && died <= to {
			to = max(to, died+l.terms().Lease.TTL*102/100)
		}
		times = append(times, simSpan{l.answered, to})
	}
	return merged(times)
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
		passed := 0
		for _, l := range leases {
			if l.waits && l.called > v.called+simHeadStart && l.answered > v.called && l.answered < v.answered {
				passed++
			}
		}
		if passed > simPasses {
			wrong = append(wrong, fmt.Sprintf("%v, which asked for %s at %v, was passed by %d later ones", v.caller, lock, v.called, passed))
		}
	}
	return wrong
}

const (
	simHeadStart = 200 * time.Millisecond
	simPasses    = 3
)
