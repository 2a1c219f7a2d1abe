package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
)

// A majority loses its memory at once, and comes back without the others: those that forgot
// together are admitted together. Later one of them forgets alone.

// drawTogether plans that, in a part of the schedules whose ttls are short.
func (p *simPlan) drawTogether(draw *rand.Rand) {
	if p.kind != simAnything && p.kind != simRestarts || p.longest() > 3*time.Second || p.uses.longer || p.uses.lengths || p.uses.delay > 0 || draw.IntN(2) > 0 {
		return
	}
	order := draw.Perm(p.nodes)
	back, away := order[:p.quorum()], order[p.quorum():]
	at := p.busy
	until := at + p.togetherTakes() + 12*time.Second // faults count for some seconds more
	for _, node := range back {
		p.crashWith(node, at, below(draw, 3*time.Second), simEmpty, 0, false)
	}
	for _, node := range away {
		if draw.IntN(2) == 0 {
			p.freezes(node, at, until)
			continue
		}
		p.crashWith(node, at, until-at, draw.IntN(3), below(draw, time.Second), false)
	}
	p.add(at+time.Microsecond, func(r *simRun) { r.admissions.together(back) }, "%v forgot together", back)
	p.busy = until
	if draw.IntN(2) == 0 {
		p.forgetsAlone(draw, back, away)
	}
}

// forgetsAlone lets one of those that forgot together forget once more, after a time in which
// only it and the others had the leases. So it must not be admitted without the others.
func (p *simPlan) forgetsAlone(draw *rand.Rand, back, away []int) {
	at := p.busy + 2*p.longest() + 3*time.Second // all are admitted
	lone := back[draw.IntN(len(back))]
	apart := at + 2*time.Second + below(draw, time.Second)
	p.busy = apart + admission.MajorityLossGuard*102/100 + 3*p.longest() + 2*time.Second // it would be admitted meanwhile
	for _, node := range back {
		if node != lone {
			p.freezes(node, at, apart)
		}
	}
	for _, node := range away {
		p.freezes(node, apart, p.busy)
	}
	p.crashWith(lone, apart, time.Millisecond, simEmpty, 0, false)
}

// togetherTakes returns how long nodes that forgot together may stay away at most while a
// client reaches all of them.
func (p *simPlan) togetherTakes() time.Duration {
	return admission.MajorityLossGuard*102/100 + p.admissionTakes(false)
}

// together records that these nodes, a quorum, have just lost their memory. The others do not
// answer until they are admitted.
func (a *simAdmissions) together(nodes []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, node := range nodes {
		if q := a.open[node]; q != nil {
			for _, other := range nodes {
				q.with.Add(other)
			}
		}
	}
}

// admittedTogether checks that the nodes that forgot together are admitted in time, if a client
// reaches all of them.
func admittedTogether(h *simHistory) (wrong []string) {
	for _, q := range h.run.admissions.all {
		if q.with == 0 {
			continue
		}
		for _, c := range h.run.clients {
			free := keptFromAdmittingTogether(c).longest(max(q.from, q.last), q.to)
			if free.to-free.from > h.plan.togetherTakes()*time.Duration(1+h.stepsIn(q.from, q.to)) {
				wrong = append(wrong, q.tooLong(c, free))
			}
		}
	}
	return wrong
}

// keptFromAdmittingTogether returns when a client did not reach all nodes: those that forgot together have no list of masters
// any more, and it begins where all of its masters answer.
func keptFromAdmittingTogether(c *simClient) simSpans {
	var all []simSpan
	for n := range c.run.plan.nodes {
		all = append(all, c.run.wellness.illBut(notAdmitted, n, c.index)...)
	}
	return merged(slices.Concat(all, c.ended()))
}
