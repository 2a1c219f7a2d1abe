package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// drawExtremes gives one client a ttl of 100 ms and another one the longest, in a network that the
// short one can bear: its node timeout is five milliseconds. Everything happens later then, since new
// nodes do not vote for as long as the longest ttl.
func drawExtremes(p *simPlan, draw *rand.Rand) {
	if draw.IntN(12) > 0 || p.kind == simClocks || p.kind == simTails {
		return
	}
	shortest := draw.IntN(p.clients)
	p.ttls[shortest] = 100 * time.Millisecond
	p.ttls[(shortest+1+draw.IntN(p.clients-1))%p.clients] = simLongest
	for i := range p.trip {
		p.trip[i] = min(p.trip[i], time.Millisecond)
	}
	clear(p.slow)
	delay := p.longest() + time.Second - p.calm
	p.calm, p.busy = p.calm+delay, p.busy+delay
	for i := range p.events {
		p.events[i].at += delay
	}
}

// drawSetBack sets clocks of servers back. Keys, quarantines and waits last longer then, so nothing but
// exclusion and tokens is checked.
func drawSetBack(p *simPlan, draw *rand.Rand) {
	if draw.IntN(12) > 0 || p.outside != "" {
		return
	}
	p.setBack = true
	for range 1 + draw.IntN(3) {
		node, by := draw.IntN(p.nodes), 1+below(draw, []time.Duration{time.Second, 3 * p.ttl, time.Hour}[draw.IntN(3)])
		p.add(p.instant(draw), func(r *simRun) { r.clocks[node].stepped.Add(-int64(by)) }, "node %d's clock is set back by %v", node, by)
	}
}

// checkSetBack returns the violations that must not be where servers' clocks are set back.
func (h *simHistory) checkSetBack() []string {
	wrong := slices.Clone(h.brokenScripts)
	check := func(name string, leases []*simVisit) {
		wrong = append(wrong, h.exclusion(leases, name)...)
		wrong = append(wrong, h.tokens(append(h.seizures(name), leases...))...)
	}
	for lock := range h.plan.locks {
		name := fmt.Sprintf("lock-%d", lock)
		check(name, h.leases(name))
	}
	for slot := range h.plan.sizeMost() {
		check(slotName(slot), leasesOfSlot(h, slot))
	}
	return wrong
}
