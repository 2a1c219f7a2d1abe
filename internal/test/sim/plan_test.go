package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// What a simulation does is planned from its seed alone.

// simKind is what a plan is biased to.
type simKind string

const (
	simMinority simKind = "minority" // the same minority of the nodes does whatever it likes
	simAnything simKind = "anything" // any node, any client, any link
	simCrowds   simKind = "crowds"   // clients with many callers for one lock die, are cut off or give up at their turn
	simVerdicts simKind = "verdicts" // answers arrive around the last nanosecond of validity
	simRestarts simKind = "restarts" // memory is lost around the edge of the guard
	simFlaps    simKind = "flaps"    // a holder reaches now these nodes, now those, and never a quorum
	simTails    simKind = "tails"    // leases stand on exactly q nodes, one of which loses its last second
	simClocks   simKind = "clocks"   // outside of the assumptions: clocks are stepped, or too fast
	simDeleted  simKind = "deleted"  // outside of the assumptions: a person deletes a lock's keys
)

// simKinds are drawn from: half of them are about boundaries.
var simKinds = []simKind{
	simMinority, simMinority, simAnything, simAnything, simCrowds, simCrowds, simClocks, simDeleted,
	simVerdicts, simVerdicts, simVerdicts, simRestarts, simTails, simTails, simFlaps,
}

// simPlan is one schedule. Each field is one thing that a seed decides; the methods draw
// and print them.
type simPlan struct {
	seed       uint64
	generation int
	kind       simKind
	nodes      int
	clients    int
	callers    []int // of each client
	locks      int
	ttl        time.Duration   // of most clients
	ttls       []time.Duration // of each client
	renewal    bool
	uses       simUses
	clientRate []float64       // seconds of the client's clock in a true one
	clientFrom []time.Duration // what its clock shows at the beginning
	nodeRate   []float64       // the same of a server's
	nodeAhead  []time.Duration // how far its clock is off
	trip       []time.Duration // one way to a node, about
	flushed    time.Duration   // after so long a node forgets its scripts again, about; with uses.flushes
	slow       []time.Duration // what a client's ways take longer
	victims    quorum.NodeSet  // nodes that may fail
	odds       simOdds
	calm       time.Duration // until then the new cluster comes to life
	busy       time.Duration // from then until then there is trouble
	events     []simEvent
	lacks      []quorum.NodeSet // the nodes that a client never reaches; of no client if it is empty
	setBack    bool             // clocks of servers are set back
	burst      *simBurst        // nil: there is none
	mortals    *simMortals      // nil: there are none
	lists      *simLists        // nil: all clients have the same
	changes    bool             // tools change the list of masters
	line       *simWaitLine     // nil: there is none
	deafness   simDeafness      // who cannot be woken
	outside    string           // which assumption it breaks; "" if none
}

// simUses are how callers use the library, beside Lock, TryLock and Unlock.
type simUses struct {
	quits     uint64        // at one release of so many, the next waiters give up
	unfenced  uint64        // of so many calls one has no token; 0: none
	forces    bool          // ForceUnlock is called now and then
	maxHolds  bool          // some leases have a longest time
	longer    bool          // some leases have a ttl that the client has not used before
	labels    bool          // owners have labels
	readers   bool          // half of the calls are readers', and some writers downgrade their leases
	permits   uint64        // how many a semaphore has for which a third of the calls ask; 0: there is none
	sets      bool          // two of five calls ask for several locks at once
	rests     bool          // half of the calls for one lock alone have a minimum hold
	lateness  bool          // servers refuse CLIENT KILL, and some renewals arrive behind the release
	delay     time.Duration // half of the calls for one lock alone have this lock delay; 0: none has one
	lengths   bool          // some holders call ExtendTo
	transfers bool          // half of the holders of one lock alone transfer it

	// Of later generations (generation_test.go).
	sizes      []uint64 // how many permits the semaphore has for each client, where they differ
	slots      bool     // some calls are for the lock of a slot of the semaphore, alone, as a reader or in a set
	forceSlots bool     // ForceUnlock is called for slots of the semaphore now and then
	flushes    bool     // scripts of nodes are flushed all the time: a release may be sent twice
	wanted     bool     // half of the leases are WithWanted, and Ask is called now and then
	observers  bool     // clients observe a lock, and half of the leases are WithAnnounce
	eager      bool     // callers hold leases briefly, and ask again at once: others wait all the time
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

// newSimPlan plans the run of a seed, in the generation of -sim.generation.
func newSimPlan(seed uint64) *simPlan { return drawSimPlan(seed, rand.NewPCG(seed, 0x5eed)) }

// drawSimPlan plans a run. The messages' fates are the seed's; all else is drawn from
// the source.
func drawSimPlan(seed uint64, source rand.Source) *simPlan {
	draw := rand.New(source)
	p := &simPlan{
		seed:       seed,
		generation: *simGeneration,
		kind:       simKinds[draw.IntN(len(simKinds))],
		nodes:      []int{3, 3, 5, 5, 5, 4, 7}[draw.IntN(7)],
		clients:    2 + draw.IntN(3),
		locks:      1 + draw.IntN(5)/4,
		ttl:        []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 6 * time.Second, 6 * time.Second}[draw.IntN(5)],
		renewal:    draw.IntN(5) > 0,
	}
	if p.kind == simVerdicts && draw.IntN(2) == 0 {
		p.ttl = 500 * time.Millisecond // connections outlast it, so that late answers arrive
	}
	if p.kind == simCrowds {
		p.ttl = min(p.ttl, 2*time.Second)
		p.locks = 1 + draw.IntN(2)
	}
	p.drawTTLs(draw)
	p.calm = p.longest() + time.Second
	p.busy = p.calm + 2*p.ttl + 2*time.Second + below(draw, 4*time.Second)
	p.clocks(draw)
	p.network(draw)
	p.drawCallers(draw)
	p.trouble(draw)
	p.refusals(draw)
	p.uses.readers = p.stream(readersStream).IntN(5) < 2
	p.drawSets(p.stream(setsStream))
	p.drawPermits(p.stream(permitsStream))
	p.drawRests(p.stream(restsStream))
	p.drawDelays(p.stream(delaysStream))
	p.uses.lengths = p.stream(lengthsStream).IntN(3) == 0
	p.drawTransfers(p.stream(transfersStream))
	p.drawTogether(p.stream(togetherStream))
	p.drawLater()
	return p
}

// Streams of random numbers beside the plan's own. A feature that is added to the simulation
// draws from a stream of its own: so the plans without it stay as they were.
const (
	setsStream      = 0x5e75
	lengthsStream   = 0x1e74
	readersStream   = 0x4ead
	permitsStream   = 0x9e417
	restsStream     = 0x4e57
	transfersStream = 0x42b98
	delaysStream    = 0xde1a7
	togetherStream  = 0x70637
)

// stream begins a stream of random numbers that depends on the seed alone, also where a fuzzer
// chooses what the rest of the plan is drawn from.
func (p *simPlan) stream(which uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, which)) }

// drawSets decides whether callers ask for several locks at once.
func (p *simPlan) drawSets(draw *rand.Rand) {
	if p.uses.sets = draw.IntN(3) == 0; p.uses.sets {
		p.locks = 2 + draw.IntN(2)
	}
}

// drawTTLs gives one client or another a ttl of its own.
func (p *simPlan) drawTTLs(draw *rand.Rand) {
	longer := draw.IntN(3) == 0
	for i := range p.clients {
		ttl := p.ttl
		if longer && draw.IntN(3) == 0 || p.kind == simTails && i == 0 {
			ttl = p.longerThan(ttl)
		}
		p.ttls = append(p.ttls, ttl)
	}
}

// drawCallers decides how many callers the clients have, and what they use.
func (p *simPlan) drawCallers(draw *rand.Rand) {
	crowded := p.kind == simCrowds || draw.IntN(8) == 0
	several := draw.IntN(3) == 0
	for range p.clients {
		n := 1
		if crowded || several {
			n += draw.IntN(3)
		}
		p.callers = append(p.callers, n)
	}
	if crowded {
		p.callers[draw.IntN(p.clients)] = 8 + draw.IntN(5)
	}
	p.uses = simUses{
		quits:    40,
		forces:   draw.IntN(8) == 0,
		maxHolds: draw.IntN(4) == 0,
		longer:   draw.IntN(6) == 0 || p.kind == simRestarts && draw.IntN(2) == 0,
		labels:   draw.IntN(3) == 0,
	}
	if p.kind == simCrowds {
		p.uses.quits = 4
	}
	if draw.IntN(8) == 0 {
		p.uses.unfenced = 1 + draw.Uint64N(3)
	}
}

// briefly returns for how long most leases are held, at most: the more callers, the
// longer, so that a crowd costs no more time than other plans.
func (p *simPlan) briefly() time.Duration {
	all := 0
	for _, n := range p.callers {
		all += n
	}
	return time.Duration(max(4, all)) * 5 * time.Millisecond
}

// below is a random duration below d.
func below(draw *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(draw.Int64N(int64(d)))
}

func (p *simPlan) quorum() int { return p.nodes/2 + 1 }

// driftFactor is the default of redlock.WithDrift: by so much at most, clocks run at different
// rates.
const driftFactor = 0.01

// longestOf returns the longest ttl that the keys of any lease of a client may have whose leases mostly have this ttl.
func (p *simPlan) longestOf(ttl time.Duration) time.Duration {
	if p.uses.longer {
		ttl = p.longerThan(ttl)
	}
	if p.uses.lengths {
		ttl = p.longerThan(ttl)
	}
	return ttl + p.uses.delay
}

// longest returns the longest ttl of any client. A mutex may have a longer one.
func (p *simPlan) longest() time.Duration { return slices.Max(p.ttls) }

// simLongest is the longest ttl of all plans. It is less than the twenty seconds for which
// nodes do not vote after a majority forgot: so none of these schedules breaks A6.
const simLongest = 18 * time.Second

// longerThan returns the ttl of a client that uses a longer one than the others.
func (p *simPlan) longerThan(ttl time.Duration) time.Duration { return min(3*ttl, simLongest) }

// clocks have rates within the drift allowance, often at its limit: a client's is
// slower than a server's.
func (p *simPlan) clocks(draw *rand.Rand) {
	limit := 1 - driftFactor
	for range p.clients {
		rate := 1 - draw.Float64()*driftFactor
		if draw.IntN(2) == 0 {
			rate = limit
		}
		p.clientRate = append(p.clientRate, rate)
		p.clientFrom = append(p.clientFrom, time.Hour+below(draw, time.Hour))
	}
	for range p.nodes {
		p.addServerClock(draw)
	}
}

func (p *simPlan) addServerClock(draw *rand.Rand) {
	p.nodeRate = append(p.nodeRate, 1-float64(draw.IntN(2))*draw.Float64()*driftFactor)
	p.nodeAhead = append(p.nodeAhead, below(draw, 10*time.Second))
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
	if draw.IntN(3) == 0 || p.kind == simCrowds && draw.IntN(2) == 0 {
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
	if p.kind == simMinority || p.kind == simCrowds {
		p.victims = 0
		for _, i := range draw.Perm(p.nodes)[:p.nodes-p.quorum()] {
			p.victims.Add(i)
		}
	}
	var victims []int
	for i := range p.nodes {
		if p.victims.Has(i) {
			victims = append(victims, i)
		}
	}
	if p.kind == simRestarts {
		p.rolling(draw)
	}
	faults := draw.IntN(8)
	if p.kind == simCrowds {
		faults = max(faults-5, 0)
	}
	for range faults {
		p.fault(draw, victims[draw.IntN(len(victims))])
	}
	for range draw.IntN(4) {
		p.mishap(draw, draw.IntN(p.clients))
	}
	p.ends(draw)
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
