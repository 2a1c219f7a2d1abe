package sim

import (
	"time"

	"github.com/redlock-go/redlock/internal/test/simredis"
)

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
