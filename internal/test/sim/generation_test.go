package sim

import (
	"flag"
	"math/rand/v2"
)

// Generations: what the simulation draws grows, and a seed must still find the planted bug that
// it found before. So a run has a generation, and draws what that generation knew. A patch in bugs/
// names the generation that found it; none is the first one.

// simLatest is the generation of a run that names none. A change that draws something more raises
// it by one, unless the latest is not in use yet, by a patch or by a published run.
const simLatest = 8

var simGeneration = flag.Int("sim.generation", simLatest, "what the simulation draws: that of this generation and of those before it")

// simDraw is a thing that the simulation draws since a generation.
type simDraw struct {
	since  int
	stream uint64 // of its random numbers
	plan   func(p *simPlan, draw *rand.Rand)
}

// simDraws are those since the second generation, in their order.
var simDraws = []simDraw{
	{2, 0x3f7e, drawExtremes}, // first: what happens later is planned behind it
	{2, 0x1ac5, drawLacks},
	{2, 0x5107, drawSlots},
	{2, 0x512e, drawSizes},
	{2, 0x3a47ed, drawWanted},
	{2, 0xf1054, drawFlushes},
	{2, 0x317e5, drawWipes},
	{2, 0xbac4, drawSetBack},
	{3, 0xb0457, drawBurst}, // this and what follows delays what was planned
	{3, 0x3047a1, drawMortals},
	{checksSetBack, 0x57e9, drawSteps},
	{5, 0xd1e5, drawLastTurns},
	{5, 0x11e, drawLine},
	{5, 0xdeaf, drawDeafness}, // last of these: subscriptions break as long as there is trouble
	{6, 0x1157, drawLists},
	{7, 0xc4a9e, drawChanges},
	{8, 0x0b5e4, drawObservers},
}

// drawLater plans what later generations than the first draw.
func (p *simPlan) drawLater() {
	for _, d := range simDraws {
		if p.knows(d.since) {
			d.plan(p, p.stream(d.stream))
		}
	}
}

// knows reports whether the run draws and checks what a generation brought.
func (p *simPlan) knows(generation int) bool { return p.generation >= generation }
