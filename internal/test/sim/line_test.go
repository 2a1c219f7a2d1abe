package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A line: further clients that stand in one queue, one behind the other, for a lock or for permits that another one
// keeps. Some die there, some as it is handed over to them, some cannot be woken. No message is lost.

// simWaitLine is what the further clients do in a plan, before the trouble.
type simWaitLine struct {
	permits bool          // it is for permits, of a semaphore that has two
	first   int           // the index of the client that keeps the lock, or one of the permits; the next one leads the line
	from    time.Duration // the instant at which it asks
	frees   time.Duration // the instant at which it lets go
	until   time.Duration // the instant at which the trouble begins
}

const (
	// simLineLock is the lock, which nobody else asks for. The permits are those of the plan's semaphore.
	simLineLock = "line"

	// simLineHold is for how long each but the first holds what it gets.
	simLineHold = 200 * time.Millisecond

	// simLineDooms is how many of them die as the lock is handed over to them, at most.
	simLineDooms = 2

	// simIdleInLine is for how long the lock may be free while a line waits, if each client can be woken. The lock is
	// reserved for each client that dies at its turn. The nodes challenge the others that died together.
	simIdleInLine = (simLineDooms+2)*protocol.ReservationTTL + 200*time.Millisecond
)

// drawLine decides whether there is a line. Kinds in which holders make trouble at any time have none.
func drawLine(p *simPlan, draw *rand.Rand) {
	if draw.IntN(3) == 0 || p.burst != nil || p.mortals != nil || p.setBack ||
		slices.Contains([]simKind{simVerdicts, simRestarts, simFlaps, simTails}, p.kind) {
		return
	}
	l := &simWaitLine{permits: draw.IntN(3) == 0, first: p.clients, from: p.calm + simNotices}
	if l.permits {
		p.uses.permits, p.uses.sizes, p.uses.slots, p.uses.forceSlots = 2, nil, false, false
	}
	p.odds = simOdds{}
	l.frees = l.from + 3*time.Second
	l.until = l.frees + 8*time.Second
	p.delayTrouble(l.until - p.calm)
	p.addClients(8+draw.IntN(5), draw)
	if p.clients%2 > 0 { // the last one then has an odd index, so its machine may vanish, and nobody stands behind it
		p.addClients(1, draw)
	}
	p.line = l
	dooms := 0
	for client := l.first + 1; client < p.clients; client++ {
		what := draw.IntN(6)
		if client == p.clients-1 {
			what = 2 * draw.IntN(2)
		}
		switch {
		case what == 0:
			p.add(l.from+below(draw, 4*time.Second), func(r *simRun) { r.clients[client].die() }, "client %d dies", client)
		case what == 1 && dooms < simLineDooms:
			dooms++
			p.add(l.from, func(r *simRun) { r.clients[client].doom.Store(int32(simDies)) }, "client %d's next turn is its last (%s)", client, simDies)
		}
	}
}

// isAmong reports whether a client is one of the further ones.
func (l *simWaitLine) isAmong(c *simClient) bool { return l != nil && c.index >= l.first }

// acts is all that the caller of such a client does.
func (l *simWaitLine) acts(c *simCaller) {
	r := c.client.run
	place := c.client.index - l.first
	from, hold := l.from+time.Duration(place)*simHeadStart/2+c.span(0, 150, simHeadStart/4), simLineHold
	if place == 0 {
		hold = l.frees - from
	}
	time.Sleep(from - r.awake())
	c.random.await()
	ctx, cancel := context.WithTimeout(c.life, l.until-r.awake())
	defer cancel()
	v := r.history.call(c, l.lock(c, place), true)
	over := r.waits(v, cancel)
	lease, err := v.mutex.Lock(ctx)
	over()
	if v.returned(lease, err); err != nil {
		return
	}
	c.visit(v, hold, simProlongs{})
	if !c.client.isDead() {
		c.handsOff(v, 0)
		c.random.await()
		v.unlocks()
	}
}

// lock returns what the client at a place in the line asks for: the first behind the holder asks for both permits.
func (l *simWaitLine) lock(c *simCaller, place int) simLock {
	switch {
	case !l.permits:
		return c.client.client.Mutex(simLineLock, withRandom(c.random))
	case place == 1:
		return c.permits(2)
	}
	return c.permits(1)
}
