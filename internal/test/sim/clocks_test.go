package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
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

// drawSetBack sets clocks of servers back. Keys, quarantines and waits last longer then. The second generation checks
// nothing but exclusion and tokens in such a plan.
func drawSetBack(p *simPlan, draw *rand.Rand) {
	if draw.IntN(12) > 0 || p.outside != "" {
		return
	}
	p.setBack = true
	for range 1 + draw.IntN(3) {
		node, by := draw.IntN(p.nodes), 1+below(draw, []time.Duration{time.Second, 3 * p.ttl, time.Hour}[draw.IntN(3)])
		p.setsBack(p.instant(draw), by, node)
	}
}

// checksSetBack is the generation from which on all promises are checked where clocks of servers are set back.
const checksSetBack = 4

// drawSteps sets the clocks of one node, of a minority, or of all nodes back at once, also while a new cluster comes to
// life. Then there is time to see that locks go on.
func drawSteps(p *simPlan, draw *rand.Rand) {
	if draw.IntN(6) > 0 || p.outside != "" || p.burst != nil || p.mortals != nil {
		return
	}
	p.setBack = true
	for range 1 + draw.IntN(2) {
		by := 1 + below(draw, []time.Duration{time.Second, 3 * p.ttl, time.Hour, time.Hour}[draw.IntN(4)])
		nodes := draw.Perm(p.nodes)[:[]int{1, p.nodes - p.quorum(), p.nodes, p.nodes}[draw.IntN(4)]]
		p.setsBack(below(draw, p.busy), by, nodes...)
	}
	p.busy += 2 * simStepped
}

// simStepped is how long after a step waiters may be passed: the first of them may look every 1.2 s, then clients read the
// clocks, and it looks once more.
const simStepped = 5 * time.Second

// simOldClocks is how long after a step a new caller may draw a ticket by clocks that its client read before: no waiter of the
// client fell back, and its probes read them.
const simOldClocks = admission.ProbeInterval + time.Second

// setsBack plans that clocks of servers are set back.
func (p *simPlan) setsBack(at, by time.Duration, nodes ...int) {
	p.add(at, func(r *simRun) {
		for _, node := range nodes {
			r.clocks[node].stepped.Add(-int64(by))
		}
		r.wellness.shakes()
		r.history.mu.Lock()
		defer r.history.mu.Unlock()
		r.history.steps = append(r.history.steps, r.now())
	}, "the clocks of the nodes %v are set back by %v", nodes, by)
}

// stepsIn returns how often clocks of servers were set back between two instants.
func (h *simHistory) stepsIn(from, to time.Duration) (n int) {
	for _, at := range h.steps {
		if from <= at && at <= to {
			n++
		}
	}
	return n
}

// checkSafety returns the violations that must not be also where servers' clocks are set back, clients have two lists, or the list changes.
func (h *simHistory) checkSafety() []string {
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

// Wall clocks: owners have what they show. No promise depends on them: they are hours apart, stand still, or
// were never set.

// simWall is what a client's wall clock shows at a true time.
type simWall func(at time.Duration) time.Time

// newWall draws the wall clock of a client. Those of most clients agree.
func (p *simPlan) newWall(client int) simWall {
	epoch := time.Unix(1_800_000_000, 0)
	random := mix(p.seed, uint64(client), textHash("wall clock"))
	switch off := time.Duration(random >> 8 % uint64(24*time.Hour)); random % 8 {
	case 0:
		return func(time.Duration) time.Time { return epoch } // it stands still
	case 1:
		return func(time.Duration) time.Time { return time.Time{} } // it was never set
	case 2, 3:
		return func(at time.Duration) time.Time { return epoch.Add(at + off - 12*time.Hour) }
	}
	return epoch.Add
}

// wallOf returns the wall clock of a client. It leads to nothing else of the run.
func (r *simRun) wallOf(client int) system.Wall {
	show, now := r.plan.newWall(client), r.world.Now
	return func() time.Time { return show(now()) }
}

// withWall replaces the wall clock.
func withWall(w system.Wall) redlock.Option { return testhook.WithWall(w).(redlock.Option) }

// checkSince checks that a lease says when its attempt began, by its client's wall clock. All attempts of a
// Resume have the owner of the first one.
func (v *simVisit) checkSince() {
	const rounding = 500*time.Millisecond + time.Microsecond
	show := v.history.plan.newWall(v.caller.client.index)
	from, to := show(v.began), show(v.began)
	if v.from != nil {
		from = show(v.called)
	}
	since := v.lease.Since()
	if from.IsZero() {
		from, to = time.Time{}, time.Time{}
	}
	if since.Before(from.Add(-rounding)) || since.After(to.Add(rounding)) || !since.Equal(protocol.SinceOf(v.lease.Owner())) {
		v.history.fail("%v's lease, token %d, says that it is held since %v, and it was asked for between %v and %v", v.caller, v.token, since, from, to)
	}
}
