package sim

import (
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/test/simredis"
)

// fault makes one node fail for a while.
func (p *simPlan) fault(draw *rand.Rand, node int) {
	at, last := p.instant(draw), below(draw, 2*p.ttl)
	if draw.IntN(3) == 0 {
		last = p.busy - at // messages that are held back come late, and are seen when all is over
	}
	switch draw.IntN(7) {
	case 6:
		p.add(at, func(r *simRun) { r.servers[node].FlushScripts() }, "node %d's scripts are flushed", node)
	case 0, 1:
		p.add(at, func(r *simRun) { r.freeze(node, true) }, "node %d freezes", node)
		p.add(at+last, func(r *simRun) { r.freeze(node, false) }, "node %d goes on", node)
	case 2:
		p.wipe(draw, node, at)
	default:
		p.crash(draw, node, at, last)
	}
}

// wipe deletes a node's keys: all of them, or all but those of its quarantine.
func (p *simPlan) wipe(draw *rand.Rand, node int, at time.Duration) {
	if draw.IntN(3) == 0 {
		p.add(at, func(r *simRun) { r.wipeAllButQuarantine(node) }, "node %d loses all keys but its quarantine", node)
		return
	}
	p.add(at, func(r *simRun) { r.wipe(node) }, "node %d is wiped", node)
}

// The disks that servers come back with.
const (
	simWhole = iota
	simTail
	simEmpty
)

// crash ends a server's run; it comes back after a while.
func (p *simPlan) crash(draw *rand.Rand, node int, at, last time.Duration) {
	if draw.IntN(3) == 0 {
		last = below(draw, 5*time.Millisecond)
	}
	p.crashWith(node, at, last, draw.IntN(3), below(draw, time.Second), draw.IntN(3) == 0)
}

func (p *simPlan) crashWith(node int, at, last time.Duration, disk int, tail time.Duration, silent bool) {
	saved := at
	if disk == simTail {
		saved = max(at-tail, 0)
	}
	p.add(saved, func(r *simRun) { r.write(node, r.servers[node].Snapshot()) }, "node %d writes its disk", node)
	p.add(at, func(r *simRun) {
		if disk == simWhole {
			r.write(node, r.servers[node].Snapshot())
		}
		r.crash(node, silent)
	}, "node %d crashes (silently: %t)", node, silent)
	p.add(at+last, func(r *simRun) {
		switch disk {
		case simEmpty:
			r.write(node, nil)
		case simTail:
			r.outdate(node)
		}
		r.start(node)
	}, "node %d starts, with %s", node, []string{"all its data", "all but the last " + tail.String(), "nothing"}[disk])
}

// rolling makes nodes lose their memory one after the other, about a guard apart.
func (p *simPlan) rolling(draw *rand.Rand) {
	at := p.instant(draw)
	for _, node := range draw.Perm(p.nodes) {
		if draw.IntN(2) == 0 {
			p.crashWith(node, at, below(draw, 2*time.Millisecond), 1+draw.IntN(2), below(draw, time.Second), false)
		} else {
			p.wipe(draw, node, at)
		}
		at += p.ttl + []time.Duration{-time.Millisecond, 0, time.Millisecond, p.ttl / 50, 500 * time.Millisecond}[draw.IntN(5)]
	}
	p.busy = max(p.busy, min(at, 40*time.Second))
}

// refusals makes servers answer with errors for a while.
func (p *simPlan) refusals(draw *rand.Rand) {
	if p.kind == simDeleted || draw.IntN(4) > 0 {
		return // an error may hide a deletion, as an answer that is lost may
	}
	for range 1 + draw.IntN(3) {
		node, at, last := draw.IntN(p.nodes), p.instant(draw), below(draw, 2*p.ttl)
		how := []simredis.Refusal{simredis.Busy, simredis.Unsaved, simredis.Full}[draw.IntN(3)]
		if p.victims.Has(node) {
			p.add(at, func(r *simRun) { r.refuse(node, how) }, "node %d refuses: %.9s", node, how)
			p.add(min(at+last, p.busy), func(r *simRun) { r.refuse(node, "") }, "node %d is well again", node)
		}
	}
}

// deleted breaks the assumption that nobody else touches the keys.
func (p *simPlan) deleted(draw *rand.Rand) {
	p.outside = "A5: a lock's keys are deleted"
	// An answer that is lost may hide it (docs/safety.md); one that is late may not.
	p.events, p.odds.lost, p.odds.silent, p.odds.ghost = nil, 0, 0, 0
	for range 4 {
		at := p.instant(draw)
		p.add(at, func(r *simRun) {
			for _, c := range r.clients {
				for _, v := range c.held() {
					if v.wants("lock-0") {
						v.isRobbed()
					}
				}
			}
			for _, s := range r.servers {
				s.Drop("redlock:lock-0")
			}
		}, "lock-0 is deleted everywhere")
	}
}

// stepped breaks the assumption on clocks.
func (p *simPlan) stepped(draw *rand.Rand) {
	p.outside = "A1: a clock is stepped"
	node, by := draw.IntN(p.nodes), below(draw, 3*p.ttl)
	p.add(p.instant(draw), func(r *simRun) { r.clocks[node].stepped.Add(int64(by)) }, "node %d's clock is stepped forward by %v", node, by)
	if draw.IntN(2) == 0 {
		p.outside = "A1: clocks differ by more than the allowance"
		p.clientRate[draw.IntN(p.clients)] = 0.8 + 0.15*draw.Float64()
	}
}
