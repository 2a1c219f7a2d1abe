package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is something bad that can befall a node or a client.
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
	clients    = []Fault{Pause, Pause, Crash}
)

// Forgets tells whether a node may have lost some of its memory by the fault.
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

// Phase is a set of faults that are there at about the same time. All nodes are
// well before it.
type Phase struct {
	Number   int
	Majority bool // more nodes fail than the locks can bear: nobody need get one
	Nodes    []Blow
	Clients  []Blow
	Rest     time.Duration // after everybody is well again
}

func (p Phase) String() string {
	kind := "minority"
	if p.Majority {
		kind = "majority"
	}
	blows := make([]string, 0, len(p.Nodes)+len(p.Clients))
	for _, b := range slices.Concat(p.Nodes, p.Clients) {
		blows = append(blows, b.String())
	}
	return fmt.Sprintf("phase %d (%s): %s; rest %v", p.Number, kind, strings.Join(blows, "; "), p.Rest)
}

// Plan deals phases. They depend on its settings alone.
type Plan struct {
	nodes, processes int
	long             time.Duration // how long a fault lasts at most
	amnesia          bool          // now and then, a majority forgets
	rng              *rand.Rand
	number           int
	decks            map[string][]Fault
}

// NewPlan makes the plan of this seed for so many nodes, and client processes
// that may be paused or killed. Faults of a majority that forgets, after which
// nobody gets a lock for twenty seconds, are for long runs.
func NewPlan(seed uint64, nodes, processes int, ttl time.Duration, amnesia bool) *Plan {
	return &Plan{
		nodes: nodes, processes: processes, long: ttl * 5 / 4, amnesia: amnesia,
		rng: rand.New(rand.NewPCG(seed, 0)), decks: map[string][]Fault{},
	}
}

const (
	everyMajority = 5  // each so many phases one of a majority
	everyAmnesia  = 25 // and so many one of a majority that forgets
)

// Next returns the next phase.
func (p *Plan) Next() Phase {
	p.number++
	phase := Phase{Number: p.number, Majority: p.number%everyMajority == 0}
	most := (p.nodes - 1) / 2 // as many as may fail
	victims := p.rng.Perm(p.nodes)
	other := victims[p.nodes-1]
	if phase.Majority {
		victims = victims[:most+1+p.rng.IntN(p.nodes-most)]
	} else if p.rng.IntN(4) > 0 {
		victims = victims[:most]
	} else {
		victims = victims[:1]
	}
	for _, victim := range victims {
		deck, faults := "all", slices.Concat(forgetting, passing)
		switch {
		case phase.Majority && p.amnesia && p.number%everyAmnesia == 0:
			deck, faults = "forgetting", []Fault{Kill, Rewind, Restart, Wipe}
		case phase.Majority:
			deck, faults = "passing", passing
		}
		blow := Blow{Fault: p.deal(deck, faults), Target: victim, Other: other,
			After: p.upTo(500 * time.Millisecond), For: 100*time.Millisecond + p.upTo(p.long)}
		switch blow.Fault {
		case Latency:
			blow.Amount = 1 + p.rng.IntN(60)
		case LoseReplies:
			blow.Amount = 1 + p.rng.IntN(5)
		}
		phase.Nodes = append(phase.Nodes, blow)
	}
	if p.processes > 0 {
		phase.Clients = append(phase.Clients, Blow{Fault: p.deal("clients", clients), Target: p.rng.IntN(p.processes),
			After: p.upTo(time.Second), For: 100*time.Millisecond + p.upTo(p.long*3/2)})
	}
	phase.Rest = p.upTo(500 * time.Millisecond)
	return phase
}

// deal takes a fault from a shuffled deck: in a short run too, each has its turn.
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
