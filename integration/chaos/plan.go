package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is a fault of a node or a client.
type Fault string

// The faults of nodes. Those that forget keep the node from voting until it has
// been admitted again.
const (
	Kill    Fault = "kill -9, restart without data"
	Rewind  Fault = "kill -9, restart with old data"
	Restart Fault = "kill -9, restart with all data"
	Wipe    Fault = "wiped (FLUSHALL)"
	Replica Fault = "made a replica for a while"

	Freeze      Fault = "frozen"
	Cut         Fault = "cut off"
	HoldReplies Fault = "replies held"
	LoseReplies Fault = "replies lost"
	Strand      Fault = "old connections held"
	Reset       Fault = "connections reset"
	Latency     Fault = "latency"
)

// The faults of client processes.
const (
	Pause Fault = "client process paused"
	Crash Fault = "client process killed"
)

var (
	forgetting = []Fault{Kill, Rewind, Restart, Wipe, Replica}
	passing    = []Fault{Freeze, Cut, HoldReplies, LoseReplies, Strand, Reset, Latency}
	silent     = []Fault{Freeze, Cut, HoldReplies}
	sudden     = []Fault{Wipe, Wipe, Wipe, Kill, Rewind, Restart}
	clients    = []Fault{Pause, Pause, Crash}
)

// Forgets reports whether a node may have lost some of its memory by the fault.
func (f Fault) Forgets() bool { return slices.Contains(forgetting, f) }

// Blow is one fault of a phase.
type Blow struct {
	Fault  Fault
	Target int           // the node, or the client process
	Other  int           // for Replica: the node that it follows
	After  time.Duration // since the phase began
	For    time.Duration // until it is undone
	Amount int           // milliseconds of latency, or the number of replies lost
}

func (b Blow) String() string {
	s := fmt.Sprintf("%d %s, %v +%v", b.Target, b.Fault, b.After, b.For)
	switch b.Fault {
	case Latency:
		s += fmt.Sprintf(" (%d ms)", b.Amount)
	case LoseReplies:
		s += fmt.Sprintf(" (%d)", b.Amount)
	case Replica:
		s += fmt.Sprintf(" (of %d)", b.Other)
	}
	return s
}

// PhaseKind is how many nodes fail.
type PhaseKind string

// The kinds of phases.
const (
	Minority PhaseKind = "minority" // locks go on
	Relay    PhaseKind = "relay"    // a minority at any time, but not always the same
	Majority PhaseKind = "majority" // more than locks tolerate: no client need get one
)

// Phase is a set of faults at about the same time. All nodes are healthy before it.
type Phase struct {
	Number  int
	Kind    PhaseKind
	Nodes   []Blow
	Clients []Blow
	Rest    time.Duration // after all nodes and clients are healthy again
}

func (p Phase) String() string {
	blows := make([]string, 0, len(p.Nodes)+len(p.Clients))
	for _, b := range slices.Concat(p.Nodes, p.Clients) {
		blows = append(blows, b.String())
	}
	return fmt.Sprintf("phase %d (%s): %s; rest %v", p.Number, p.Kind, strings.Join(blows, "; "), p.Rest)
}

// Plan makes phases. They depend on its settings alone.
type Plan struct {
	nodes, processes int
	ttl              time.Duration
	amnesia          bool // now and then, a majority forgets
	rng              *rand.Rand
	number           int
	decks            map[string][]Fault
}

// NewPlan makes the plan of this seed for so many nodes, and client processes
// that may be paused or killed. Faults of a majority that forgets, after which
// nobody gets a lock for twenty seconds, are for long runs.
func NewPlan(seed uint64, nodes, processes int, ttl time.Duration, amnesia bool) *Plan {
	return &Plan{
		nodes: nodes, processes: processes, ttl: ttl, amnesia: amnesia,
		rng: rand.New(rand.NewPCG(seed, 0)), decks: map[string][]Fault{},
	}
}

// Of each five phases, two are relays and one is of a majority; of each 25, one of
// a majority that forgets.
const (
	everyMajority = 5
	everyAmnesia  = 25
)

// Next returns the next phase.
func (p *Plan) Next() Phase {
	p.number++
	phase := Phase{Number: p.number, Kind: Minority}
	order := p.rng.Perm(p.nodes)
	switch p.number % everyMajority {
	case 0:
		phase.Kind, phase.Nodes = Majority, p.majority(order)
	case 2, 4:
		phase.Kind, phase.Nodes = Relay, p.relay(order)
	default:
		phase.Nodes = p.minority(order)
	}
	if p.processes > 0 {
		phase.Clients = append(phase.Clients, Blow{Fault: p.deal("clients", clients), Target: p.rng.IntN(p.processes),
			After: p.upTo(time.Second), For: p.ttl/2 + p.upTo(p.ttl*3/2)})
	}
	phase.Rest = p.upTo(500 * time.Millisecond)
	return phase
}

// most is how many nodes may fail.
func (p *Plan) most() int { return (p.nodes - 1) / 2 }

func (p *Plan) minority(order []int) []Blow {
	victims := p.most()
	if p.rng.IntN(4) == 0 {
		victims = 1
	}
	var blows []Blow
	for _, victim := range order[:victims] {
		blows = append(blows, p.blow(p.deal("all", slices.Concat(forgetting, passing)), victim, order))
	}
	return blows
}

// relay is a minority that changes: some nodes are silent, and as soon as they answer again
// another one forgets. A lease that was granted meanwhile has the votes of a bare majority,
// with the node that forgot among them, until it is renewed.
func (p *Plan) relay(order []int) []Blow {
	after, lasts := p.upTo(300*time.Millisecond), p.ttl/6+p.upTo(p.ttl/2)
	var blows []Blow
	for _, victim := range order[:p.most()] {
		blow := p.blow(p.deal("silent", silent), victim, order)
		blow.After, blow.For = after, lasts
		blows = append(blows, blow)
	}
	next := p.blow(p.deal("sudden", sudden), order[p.most()], order)
	next.After = after + lasts + p.upTo(150*time.Millisecond)
	return append(blows, next)
}

func (p *Plan) majority(order []int) []Blow {
	deck, faults := "passing", passing
	if p.amnesia && p.number%everyAmnesia == 0 {
		deck, faults = "amnesia", []Fault{Kill, Rewind, Restart, Wipe}
	}
	least := p.most() + 1
	var blows []Blow
	for _, victim := range order[:least+p.rng.IntN(p.nodes-least+1)] {
		blows = append(blows, p.blow(p.deal(deck, faults), victim, order))
	}
	return blows
}

// blow draws the details of a fault. The last node in the order is healthy.
func (p *Plan) blow(fault Fault, target int, order []int) Blow {
	b := Blow{Fault: fault, Target: target, Other: order[p.nodes-1],
		After: p.upTo(500 * time.Millisecond), For: 100*time.Millisecond + p.upTo(p.ttl*5/4)}
	switch fault {
	case Latency:
		b.Amount = 1 + p.rng.IntN(60)
	case LoseReplies:
		b.Amount = 1 + p.rng.IntN(5)
	}
	return b
}

// deal takes a fault from a shuffled deck, so that each occurs in a short run too.
func (p *Plan) deal(name string, faults []Fault) Fault {
	deck := p.decks[name]
	if len(deck) == 0 {
		deck = slices.Clone(faults)
		p.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	}
	p.decks[name] = deck[1:]
	return deck[0]
}

func (p *Plan) upTo(d time.Duration) time.Duration {
	return time.Duration(p.rng.Int64N(int64(d))).Truncate(time.Millisecond)
}
