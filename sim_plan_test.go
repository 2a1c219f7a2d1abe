package redlock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/simredis"
)

// What a simulation does is planned from its seed alone.

// simKind is what a plan is biased to.
type simKind string

const (
	simMinority simKind = "minority" // the same minority of the nodes does whatever it likes
	simAnything simKind = "anything" // any node, any client, any link
	simVerdicts simKind = "verdicts" // answers arrive around the last nanosecond of validity
	simRestarts simKind = "restarts" // memory is lost around the edge of the guard
	simFlaps    simKind = "flaps"    // a holder reaches now these nodes, now those, and never a quorum
	simTails    simKind = "tails"    // leases stand on exactly q nodes, one of which loses its last second
	simClocks   simKind = "clocks"   // outside of the assumptions: clocks are stepped, or too fast
	simDeleted  simKind = "deleted"  // outside of the assumptions: a person deletes a lock's keys
)

// simKinds are drawn from: half of them are about boundaries.
var simKinds = []simKind{
	simMinority, simMinority, simAnything, simAnything, simClocks, simDeleted,
	simVerdicts, simVerdicts, simVerdicts, simRestarts, simTails, simTails, simFlaps,
}

// simPlan is one schedule.
type simPlan struct {
	seed       uint64
	kind       simKind
	nodes      int
	clients    int
	locks      int
	ttl        time.Duration   // of most clients
	ttls       []time.Duration // of each client
	renewal    bool
	clientRate []float64       // seconds of the client's clock in a true one
	clientFrom []time.Duration // what its clock shows at the beginning
	nodeRate   []float64       // the same of a server's
	nodeAhead  []time.Duration // how far its clock is off
	trip       []time.Duration // one way to a node, about
	slow       []time.Duration // what a client's ways take longer
	victims    nodeSet         // nodes that may fail
	odds       simOdds
	calm       time.Duration // until then the new cluster comes to life
	busy       time.Duration // from then until then there is trouble
	events     []simEvent
	outside    string // which assumption it breaks; "" if none
}

// simOdds are in how many of a million messages something happens to it.
type simOdds struct {
	lost, silent, ghost, twice, slow uint64
}

// simEvent is something that happens to the world.
type simEvent struct {
	at   time.Duration
	text string
	do   func(r *simRun)
}

// newSimPlan plans the run of a seed.
func newSimPlan(seed uint64) *simPlan { return drawSimPlan(seed, rand.NewPCG(seed, 0x5eed)) }

// drawSimPlan plans a run. The messages' fates are the seed's; all else is drawn from
// the source.
func drawSimPlan(seed uint64, source rand.Source) *simPlan {
	draw := rand.New(source)
	p := &simPlan{
		seed:    seed,
		kind:    simKinds[draw.IntN(len(simKinds))],
		nodes:   []int{3, 3, 5, 5, 5, 4, 7}[draw.IntN(7)],
		clients: 2 + draw.IntN(3),
		locks:   1 + draw.IntN(5)/4,
		ttl:     []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 6 * time.Second, 6 * time.Second}[draw.IntN(5)],
		renewal: draw.IntN(5) > 0,
	}
	longest := time.Duration(0)
	if p.kind == simVerdicts && draw.IntN(2) == 0 {
		p.ttl = 500 * time.Millisecond // connections outlast it, so that late answers arrive
	}
	longer := draw.IntN(3) == 0
	for i := range p.clients {
		ttl := p.ttl
		if longer && draw.IntN(3) == 0 || p.kind == simTails && i == 0 {
			ttl *= 3
		}
		p.ttls = append(p.ttls, ttl)
		longest = max(longest, ttl)
	}
	p.calm = longest + time.Second
	p.busy = p.calm + 2*p.ttl + 2*time.Second + below(draw, 4*time.Second)
	p.clocks(draw)
	p.network(draw)
	p.trouble(draw)
	p.refusals(rand.New(rand.NewPCG(seed, 0xbad)))
	return p
}

// below is a random duration below d.
func below(draw *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(draw.Int64N(int64(d)))
}

func (p *simPlan) quorum() int { return p.nodes/2 + 1 }

// clocks have rates within the drift allowance, often at its limit: a client's is
// slower than a server's.
func (p *simPlan) clocks(draw *rand.Rand) {
	limit := 1 - defaultDriftFactor
	for range p.clients {
		rate := 1 - draw.Float64()*defaultDriftFactor
		if draw.IntN(2) == 0 {
			rate = limit
		}
		p.clientRate = append(p.clientRate, rate)
		p.clientFrom = append(p.clientFrom, time.Hour+below(draw, time.Hour))
	}
	for range p.nodes {
		p.nodeRate = append(p.nodeRate, 1-float64(draw.IntN(2))*draw.Float64()*defaultDriftFactor)
		p.nodeAhead = append(p.nodeAhead, below(draw, 10*time.Second))
	}
}

func (p *simPlan) network(draw *rand.Rand) {
	mean := 200*time.Microsecond + time.Duration(math.Pow(draw.Float64(), 3)*float64(p.ttl/100))
	p.slow = make([]time.Duration, p.clients)
	if p.kind == simVerdicts && draw.IntN(2) == 0 {
		mean = 200 * time.Microsecond
		p.slow[draw.IntN(p.clients)] = p.ttl / 60 // its round trips come near the node timeout
	}
	for range p.nodes {
		p.trip = append(p.trip, mean/2+below(draw, mean))
	}
	if draw.IntN(3) == 0 {
		return // a good network
	}
	p.odds = simOdds{
		lost:   uint64(draw.IntN(3000)),
		silent: uint64(draw.IntN(1500)),
		ghost:  uint64(draw.IntN(1500)),
		twice:  uint64(draw.IntN(2) * draw.IntN(30000)),
		slow:   uint64(draw.IntN(30000)),
	}
}

// trouble plans the faults.
func (p *simPlan) trouble(draw *rand.Rand) {
	p.victims = 1<<p.nodes - 1
	most := p.nodes - p.quorum()
	if p.kind == simMinority {
		p.victims = 0
		for _, i := range draw.Perm(p.nodes)[:max(most, 0)] {
			p.victims.add(i)
		}
	}
	var victims []int
	for i := range p.nodes {
		if p.victims.has(i) {
			victims = append(victims, i)
		}
	}
	if p.kind == simRestarts {
		p.rolling(draw)
	}
	if len(victims) > 0 {
		for range draw.IntN(8) {
			p.fault(draw, victims[draw.IntN(len(victims))])
		}
	}
	if p.kind != simMinority {
		for range draw.IntN(4) {
			p.mishap(draw, draw.IntN(p.clients))
		}
	}
	switch p.kind {
	case simClocks:
		p.stepped(draw)
	case simDeleted:
		p.deleted(draw)
	}
}

func (p *simPlan) add(at time.Duration, do func(r *simRun), format string, args ...any) {
	p.events = append(p.events, simEvent{at, fmt.Sprintf(format, args...), do})
}

// instant is a random one in the time of trouble.
func (p *simPlan) instant(draw *rand.Rand) time.Duration { return p.calm + below(draw, p.busy-p.calm) }

// fault makes one node fail for a while.
func (p *simPlan) fault(draw *rand.Rand, node int) {
	at, last := p.instant(draw), below(draw, 2*p.ttl)
	if draw.IntN(3) == 0 {
		last = p.busy - at // what is held back comes late, and is seen when all is over
	}
	switch draw.IntN(7) {
	case 6:
		p.add(at, func(r *simRun) { r.servers[node].FlushScripts() }, "node %d's scripts are flushed", node)
	case 0, 1:
		p.add(at, func(r *simRun) { r.servers[node].Freeze(true) }, "node %d freezes", node)
		p.add(at+last, func(r *simRun) { r.servers[node].Freeze(false) }, "node %d goes on", node)
	case 2:
		p.add(at, func(r *simRun) { r.wipe(node) }, "node %d is wiped", node)
	default:
		p.crash(draw, node, at, last)
	}
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
		r.servers[node].Crash(silent)
		if disk != simWhole {
			r.history.forgets(node)
		}
	}, "node %d crashes (silently: %t)", node, silent)
	p.add(at+last, func(r *simRun) {
		switch disk {
		case simEmpty:
			r.write(node, nil)
		case simTail:
			r.outdate(node)
		}
		r.servers[node].Start(r.disk(node))
	}, "node %d starts, with %s", node, []string{"all its data", "all but the last " + tail.String(), "nothing"}[disk])
}

// rolling has nodes lose their memory one after the other, about a guard apart.
func (p *simPlan) rolling(draw *rand.Rand) {
	at := p.instant(draw)
	for _, node := range draw.Perm(p.nodes) {
		if draw.IntN(2) == 0 {
			p.crashWith(node, at, below(draw, 2*time.Millisecond), 1+draw.IntN(2), below(draw, time.Second), false)
		} else {
			p.add(at, func(r *simRun) { r.wipe(node) }, "node %d is wiped", node)
		}
		at += p.ttl + []time.Duration{-time.Millisecond, 0, time.Millisecond, p.ttl / 50, 500 * time.Millisecond}[draw.IntN(5)]
	}
	p.busy = max(p.busy, min(at, 40*time.Second))
}

// mishap befalls a client, or its links.
func (p *simPlan) mishap(draw *rand.Rand, client int) {
	at, last := p.instant(draw), below(draw, 2*p.ttl)
	switch draw.IntN(7) {
	case 6:
		p.add(at, func(r *simRun) { r.clients[client].resetInRenewal(int(last % 3)) }, "client %d's connections are reset in its next renewal", client)
	case 0:
		p.add(at, func(r *simRun) { r.world.Suspend(last) }, "everybody is suspended for %v", last)
	case 1:
		p.add(at, func(r *simRun) { r.clients[client].die() }, "client %d dies", client)
	default:
		var at2 nodeSet
		for i := range p.nodes {
			if draw.IntN(2) == 0 {
				at2.add(i)
			}
		}
		ways := 1 + draw.IntN(3)
		p.add(at, func(r *simRun) { r.clients[client].block(at2, ways, true) }, "client %d is cut off from %b, ways %d", client, at2, ways)
		p.add(at+last, func(r *simRun) { r.clients[client].block(at2, ways, false) }, "client %d reaches %b", client, at2)
	}
}

// refusals have servers answer with errors for a while.
func (p *simPlan) refusals(draw *rand.Rand) {
	if p.kind == simDeleted || draw.IntN(4) > 0 {
		return // an error may hide a deletion, as an answer that is lost may
	}
	for range 1 + draw.IntN(3) {
		node, at, last := draw.IntN(p.nodes), p.instant(draw), below(draw, 2*p.ttl)
		how := []simredis.Refusal{simredis.Busy, simredis.Unsaved, simredis.Full}[draw.IntN(3)]
		if p.victims.has(node) {
			p.add(at, func(r *simRun) { r.servers[node].Refuse(how) }, "node %d refuses: %.9s", node, how)
			p.add(min(at+last, p.busy), func(r *simRun) { r.servers[node].Refuse("") }, "node %d is well again", node)
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
				if v := c.holds.Load(); v != nil && v.mutex.name == "lock-0" {
					v.isRobbed()
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
