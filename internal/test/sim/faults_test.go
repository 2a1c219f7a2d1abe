package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
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
		p.freezes(node, at, at+last)
	case 2:
		p.wipe(draw, node, at)
	default:
		p.crash(draw, node, at, last)
	}
}

// freezes freezes a node for a while.
func (p *simPlan) freezes(node int, from, to time.Duration) {
	p.add(from, func(r *simRun) { r.freeze(node, true) }, "node %d freezes", node)
	p.add(to, func(r *simRun) { r.freeze(node, false) }, "node %d goes on", node)
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

// fate returns what happens to each message between a client and a node. It must not lead
// to the history: a lease's cleanup leads to its client, and so to this, and what leads from
// there to the lease would keep the whole run in memory for ever.
func (r *simRun) fate(client, node int) simredis.Fates {
	p, clock, wellness := r.plan, r.simInstants, r.wellness
	return func(dialled time.Duration, toServer bool, n int) simredis.Fate {
		where := mix(p.seed, uint64(client), uint64(node), uint64(dialled), uint64(n))
		if toServer {
			where = mix(where)
		}
		dice := func(k uint64) uint64 { return mix(where, k) }
		trip := p.trip[node]
		f := simredis.Fate{Delay: trip/2 + time.Duration(dice(0)%uint64(trip))}
		awake := clock.awake()
		if awake < p.calm || awake >= p.busy || !p.victims.Has(node) {
			return f
		}
		f.Delay += p.slow[client]
		is := func(k, odds uint64) bool { return dice(k)%1_000_000 < odds }
		var ails time.Duration
		switch {
		case is(1, p.odds.lost):
			f.Lost, ails = true, simReconnects
		case is(2, p.odds.silent):
			f.Lost, f.Silent, ails = true, true, simNotices
		case is(3, p.odds.ghost):
			f.Delay += time.Duration(dice(4) % uint64(p.ttl*3/2))
			ails = f.Delay + simNotices
		case is(5, p.odds.slow):
			f.Delay += time.Duration(dice(6) % uint64(p.ttl/15))
		}
		f.Twice = is(7, p.odds.twice)
		if ails > 0 {
			wellness.suffers(1<<node, everybody, ails)
		}
		return f
	}
}

// Faults of the nodes. Each records from when on the node is not well, and until when.

func (r *simRun) freeze(node int, frozen bool) {
	r.wellness.set(node, everybody, "frozen", frozen)
	r.servers[node].Freeze(frozen)
}

// refuse makes a node answer with errors from now on; "" ends that.
func (r *simRun) refuse(node int, how simredis.Refusal) {
	r.wellness.set(node, everybody, "refusing", how != "")
	r.servers[node].Refuse(how)
}

// crash ends the run of a node's server. It does not vote before it is admitted again,
// whatever it comes back with.
func (r *simRun) crash(node int, silent bool) {
	r.wellness.set(node, everybody, "down", true)
	r.wellness.set(node, everybody, notAdmitted, true)
	r.admissions.loses(r.now(), node, false, r.plan.nodes-r.plan.quorum())
	r.wellness.set(node, everybody, "frozen", false)
	r.wellness.set(node, everybody, "refusing", false)
	r.servers[node].Crash(silent)
	forgetRests(&r.history, node)
}

// start begins the next run with what is on the node's disk.
func (r *simRun) start(node int) {
	r.wellness.set(node, everybody, "down", false)
	r.servers[node].Start(r.disk(node))
}

// wipe is FLUSHALL.
func (r *simRun) wipe(node int) {
	r.wellness.set(node, everybody, notAdmitted, true)
	r.admissions.loses(r.now(), node, true, r.plan.nodes-r.plan.quorum())
	r.servers[node].Wipe()
}

// wipeAllButQuarantine deletes all keys of a node but those of its quarantine, as a person or
// an eviction may.
func (r *simRun) wipeAllButQuarantine(node int) {
	r.wellness.set(node, everybody, notAdmitted, true)
	r.admissions.loses(r.now(), node, true, r.plan.nodes-r.plan.quorum())
	for _, k := range r.servers[node].Keys() {
		if !strings.HasPrefix(k.Name, protocol.Key("quarantine", "")) && !strings.HasPrefix(k.Name, protocol.Key("guard", "")) {
			r.servers[node].Drop(k.Name)
		}
	}
}

// executed is called for each command that a server executes: an admission shows that
// the node is well again. Renewals, rests and transfers are recorded.
func (r *simRun) executed(at time.Duration, node int, client string, args []string, reply any) {
	if len(args) > 1 && args[1] == protocol.Admit.Text() && reply == int64(1) {
		r.wellness.set(node, everybody, notAdmitted, false)
	}
	r.admissions.executed(at, node, args, reply)
	r.beginnings.executed(at, node, client, args, reply)
	noteSight(r, node, client, args, reply)
	noteRest(r, node, args, reply)
	noteRenewal(r, at, node, args, reply)
	noteTransferAt(&r.history, args)
	noteScript(&r.history, node, args, reply)
}

// suspend stops all clients and servers for a while.
func (r *simRun) suspend(d time.Duration) {
	r.wellness.suffers(r.all(), everybody, d+simNotices)
	r.slept.Add(int64(d))
	r.world.Suspend(d)
}
