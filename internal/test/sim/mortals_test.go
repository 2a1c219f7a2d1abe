package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Mortals: clients that wait for all permits of the semaphore while another one keeps one of them, and that die
// together. The permits that are free must soon be others'.

// simMortals is what further clients do in a plan, before the trouble: the first one keeps a permit, the
// second one asks for one when the others, which wait for all permits, have died.
type simMortals struct {
	first     int // the index of the client that keeps a permit
	from, die time.Duration
	until     time.Duration // the trouble begins
}

// simIdleAmongMortals is for how long permits may be idle among mortals, beyond the time for which dead waiters may
// keep them: no message is lost then.
const simIdleAmongMortals = time.Second

// drawMortals decides whether there are mortals. Kinds in which holders make trouble at any time have none.
func drawMortals(p *simPlan, draw *rand.Rand) {
	if draw.IntN(6) > 0 || p.burst != nil || slices.Contains([]simKind{simVerdicts, simRestarts, simFlaps, simTails}, p.kind) {
		return
	}
	p.uses.permits = 2 + draw.Uint64N(3)
	p.uses.sizes, p.uses.slots, p.uses.forceSlots = nil, false, false
	p.odds = simOdds{}
	m := &simMortals{first: p.clients, from: p.calm + simNotices}
	m.die = m.from + 2*time.Second + below(draw, 2*time.Second)
	m.until = m.die + simDeadForPermits + 2*time.Second
	p.delayTrouble(m.until - p.calm)
	p.addClients(6+draw.IntN(10), draw)
	p.mortals = m
	p.add(m.die, func(r *simRun) {
		for _, c := range r.clients[m.first+2:] {
			c.die()
		}
	}, "clients %d to %d die", m.first+2, p.clients-1)
}

// delayTrouble has the trouble that is planned so far begin later.
func (p *simPlan) delayTrouble(by time.Duration) {
	for i := range p.events {
		p.events[i].at += by
	}
	p.busy += by
}

// addClients adds further clients of one caller each, which reach all nodes.
func (p *simPlan) addClients(n int, draw *rand.Rand) {
	for range n {
		p.clients++
		p.callers = append(p.callers, 1)
		p.ttls = append(p.ttls, p.ttl)
		p.clientRate = append(p.clientRate, 1)
		p.clientFrom = append(p.clientFrom, time.Hour+below(draw, time.Hour))
		p.slow = append(p.slow, 0)
		if len(p.lacks) > 0 {
			p.lacks = append(p.lacks, 0)
		}
		if len(p.uses.sizes) > 0 {
			p.uses.sizes = append(p.uses.sizes, p.uses.permits)
		}
	}
}

// isAmong reports whether a client is one of the further ones.
func (m *simMortals) isAmong(c *simClient) bool { return m != nil && c.index >= m.first }

// acts is all that the caller of such a client does.
func (m *simMortals) acts(c *simCaller) {
	n, from, hold := c.client.run.plan.uses.permits, m.from+200*time.Millisecond+c.span(0, 150, time.Second), time.Duration(0)
	switch c.client.index - m.first {
	case 0:
		n, from, hold = 1, m.from, m.until-m.from
	case 1:
		n, from = 1, m.die+c.span(0, 150, simDeadForPermits/4)
	}
	r := c.client.run
	time.Sleep(from - r.awake())
	c.random.await()
	ctx, cancel := context.WithTimeout(c.life, m.until-r.awake())
	defer cancel()
	v := r.history.call(c, c.permits(n), true)
	lease, err := v.mutex.Lock(ctx)
	if v.returned(lease, err); err != nil {
		return
	}
	c.visit(v, hold, simProlongs{})
	if !c.client.isDead() {
		c.random.await()
		v.unlocks()
	}
}
