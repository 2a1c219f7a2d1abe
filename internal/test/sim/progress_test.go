package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// idleness returns for how long a lock may be free while a caller waits. Where a clock was set back, a waiter finds that by its
// next look, and the keys end after that: in the longest ttl, or in the guard of the node's last quarantine.
func (h *simHistory) idleness() time.Duration {
	p := h.plan
	ttl := p.longestOf(p.longest())
	if !p.setBack || !p.knows(checksSetBack) {
		return 3*time.Second + ttl
	}
	for _, s := range h.run.servers {
		for _, k := range s.Keys() {
			guard, _ := strconv.Atoi(k.Fields["guard"])
			ttl = max(ttl, time.Duration(guard)*time.Millisecond)
		}
	}
	return 6*time.Second + 2*ttl
}

// progress checks that a lock is not free for long while a caller waits for it, and a
// majority of the nodes is well for that caller's client; and that readers who hold it do not
// keep a reader waiting for as long. It does not judge the time in which nodes forget their scripts about as often as a
// client can make an attempt.
func (h *simHistory) progress(leases []*simVisit, lock string) (wrong []string) {
	taken := h.taken(leases, (*simVisit).held)
	alone := h.taken(leases, (*simVisit).heldAlone)
	all := h.taken(h.visits, (*simVisit).held)
	for _, c := range h.run.clients {
		starved := append(h.run.wellness.starved(c.index, h.plan.nodes, h.plan.quorum()), h.unheardDead()...)
		for _, at := range h.run.wellness.shaken {
			starved = append(starved, simSpan{at, at})
		}
		if h.plan.forgetsBetween() {
			starved = append(starved, simSpan{0, h.plan.busy})
		}
		for _, v := range h.visits {
			if v.caller.client != c || !v.wants(lock) || !v.waits {
				continue
			}
			excuses := slices.Concat(starved, taken, h.setsAhead(v))
			if v.reads {
				excuses = slices.Concat(starved, alone, h.writersAhead(v))
			}
			wrong = append(wrong, h.idle(v, lock, excuses)...)
			if l := h.plan.line; l.isAmong(c) && h.plan.deafness.isNone() {
				wrong = append(wrong, h.idleFor(simIdleInLine, l.until, v, lock, excuses)...)
			}
			if h.plan.uses.sets && !v.reads {
				wrong = append(wrong, h.idle(v, "any lock", slices.Concat(starved, all))...)
			}
		}
	}
	return wrong
}

// idle checks that a lock was not free for long while a call waited, but for times that are excused.
func (h *simHistory) idle(v *simVisit, lock string, excused simSpans) []string {
	return h.idleFor(h.idleness(), math.MaxInt64, v, lock, excused)
}

// idleFor is idle, for so long at most, and until an instant.
func (h *simHistory) idleFor(most, until time.Duration, v *simVisit, lock string, excused simSpans) (wrong []string) {
	end := min(v.answered, until)
	if died := v.caller.client.diedAt; died > 0 {
		end = min(end, died)
	}
	if free := merged(excused).longest(max(v.called, h.plan.calm), end); free.to-free.from > most {
		wrong = append(wrong, fmt.Sprintf("nobody had %s (alone, or before a reader: %t) for %v, from %v on, while %v waited for %s, for whom a majority was well",
			lock, v.reads, free.to-free.from, free.from, v.caller, v.name()))
	}
	return wrong
}

// setsAhead returns when a call's lock may have been kept for one that asked for several locks
// before, while others of these were held; and, if the call itself is one, when any of its locks
// was held.
func (h *simHistory) setsAhead(v *simVisit) (times simSpans) {
	for _, w := range h.visits {
		if v.isSet() && hasSlotOf(w, v) {
			times = append(times, h.taken([]*simVisit{w}, (*simVisit).held)...)
		}
		if !overlap(w, v) {
			continue
		}
		if v.isSet() {
			times = append(times, h.taken([]*simVisit{w}, (*simVisit).held)...)
		}
		if w != v && w.isSet() && w.waits && w.called <= v.called+headStart(v.called) {
			times = append(times, simSpan{w.called, gaveUpAt(w, v, h.plan)})
		}
	}
	return times
}

// taken returns when a lock is held, rests or is delayed. The keys of a lease that was transferred stay until they end.
func (h *simHistory) taken(leases []*simVisit, held func(*simVisit) simSpan) (times simSpans) {
	for _, l := range leases {
		if l.lease == nil {
			continue
		}
		span := held(l)
		if span.to > span.from || span == l.held() { // else it never held the lock in this way
			span.to = max(span.to, h.lastsUntil(l))
		}
		if l.handed != nil {
			span.to = max(span.to, l.handed.at+keysLast(l)*102/100)
		}
		if isDelayed(l) {
			span.to = max(span.to, l.ended+keysLast(l)*102/100)
		}
		times = append(times, span)
	}
	return merged(times)
}

// lastsUntil returns until when the keys of a lease may last that has ended: if its client died before, or while the release was on
// its way; if a renewal arrived later; and if it has a minimum hold.
func (h *simHistory) lastsUntil(l *simVisit) (until time.Duration) {
	c := l.caller.client
	if c.diedAt > 0 && c.diedAt <= l.ended+l.terms().Lease.NodeTimeout {
		until = c.diedAt + keysLast(l)*102/100
	}
	if late := h.renewed[l.lease.Owner()]; c.isOver() && late > max(c.diedAt, c.closedAt) {
		until = max(until, late+keysLast(l)*102/100)
	}
	if least := l.terms().Lease.MinHold; least > 0 {
		until = max(until, l.began+least*102/100)
	}
	return until
}

// noteRenewal records when a server executed the last renewal of a lease. A renewal must not take a key from another
// owner.
func noteRenewal(r *simRun, at time.Duration, node int, args []string, reply any) {
	if len(args) < 3 || !slices.ContainsFunc([]*protocol.Script{protocol.Renew, protocol.Keep, protocol.RenewAll},
		func(s *protocol.Script) bool { return args[1] == s.SHA() || args[1] == s.Text() }) {
		return
	}
	if how, ok := reply.(int64); ok && how > 0 {
		h := &r.history
		keys, _ := strconv.Atoi(args[2])
		owner := args[3+keys] // the first argument behind the keys
		h.mu.Lock()
		defer h.mu.Unlock()
		h.renewed[owner] = at
		for _, before := range r.servers[node].Replaced() {
			if before != owner && !strings.HasPrefix(before, protocol.Reserved) { // a writer's own becomes a share's
				h.failures = append(h.failures, fmt.Sprintf("node %d gave the key of %q to %q for a renewal", node, before, owner))
			}
		}
	}
}

// writersAhead returns when a reader's turn had not come since a writer waited that had asked
// before it.
func (h *simHistory) writersAhead(v *simVisit) (times simSpans) {
	for _, w := range h.visits {
		if w.reads || !w.waits || !overlap(w, v) || w.called > v.called+headStart(v.called) {
			continue
		}
		times = append(times, simSpan{w.called, gaveUpAt(w, v, h.plan)})
	}
	return times
}

// order checks that callers that asked a good while later do not pass a waiter again and
// again: a waiter in a line, and each in plans where only a minority of the nodes ever fails, while its
// client reaches the others. Where scripts are flushed all the time, it reaches one node more:
// a node that has just forgotten them answers no attempt.
func (h *simHistory) order(leases []*simVisit, lock string) (wrong []string) {
	need := h.plan.quorum()
	if h.plan.uses.flushes {
		need++
	}
	for _, v := range h.visits {
		c := v.caller.client
		inLine := h.plan.line.isAmong(c) && h.plan.kind != simClocks
		if h.plan.uses.lateness || h.plan.kind != simMinority && h.plan.kind != simCrowds && !inLine {
			continue
		}
		if !v.wants(lock) || !v.waits || v.called < h.plan.calm || c.diedAt > 0 || h.stepsIn(v.called-simOldClocks, v.called) > 0 ||
			h.run.wellness.starved(c.index, h.plan.nodes, need).touch(v.called, v.answered) {
			continue
		}
		if passed := v.passedBy(leases); passed > simPasses {
			wrong = append(wrong, fmt.Sprintf("%v, which asked for %s at %v, was passed by %d later ones", v.caller, lock, v.called, passed))
		}
	}
	return wrong
}

// passedBy returns how often callers that asked later got the lock before the waiter. Readers
// that enter together count as one: those that asked before the first of them had entered.
// Readers do not pass each other; those that do not wait must not pass a writer either.
func (v *simVisit) passedBy(leases []*simVisit) (passed int) {
	var stepped time.Duration // when those that passed it did not know yet that the clocks were set back
	for _, at := range v.history.steps {
		if v.called <= at {
			stepped = at + simStepped
		}
	}
	missed, passable := v.missedTurns()
	var poll time.Duration     // by when a waiter that polls does so, after it missed a turn
	var entered time.Duration  // when the last readers did that count
	for _, l := range leases { // by their grants
		if !l.waits && !l.reads || l.called <= v.called+headStart(v.called) || l.answered <= max(v.called, stepped) || l.answered >= v.answered || l.reads && v.reads {
			continue
		}
		if l.reads {
			if l.called <= entered {
				continue
			}
			entered = l.answered
		}
		if l.answered > poll && missed > 0 {
			missed, poll = missed-1, l.answered+passable
		}
		if l.answered > poll {
			passed++
		}
	}
	return passed
}

const (
	simHeadStart = 200 * time.Millisecond
	simPasses    = 3
)

// headStart returns by how much a caller that asks at an instant may be ahead of one that asked
// before: tickets have the nodes' time as the client knew it when it connected, or last waited,
// and its clock has drifted since then.
func headStart(at time.Duration) time.Duration {
	return simHeadStart + time.Duration(float64(at)*driftFactor)
}

// lastsAfterDeath returns how long what a client has at the nodes may last after its death: for the
// ttl of its longest lease, or for as long as a node may keep a refused attempt, and then the key
// that the attempt became; by the slowest server's clock.
func (c *simClient) lastsAfterDeath() time.Duration {
	p := c.run.plan
	ttl := p.longestOf(p.ttls[c.index])
	if p.uses.lengths { // an ExtendTo is for a multiple of the time that the keys last, and the delay comes on top
		usual := p.ttls[c.index]
		if p.uses.longer {
			usual = p.longerThan(usual)
		}
		ttl = max(ttl, p.longerThan(usual+p.uses.delay)+p.uses.delay)
	}
	return max(ttl, 2*protocol.ReservationTTL)*102/100 + 10*time.Millisecond
}

// outlives checks that nodes have nothing more of a client that died so long ago, whatever others
// did meanwhile.
func (r *simRun) outlives(c *simClient, ago time.Duration) {
	if r.plan.uses.lateness || r.plan.setBack { // keys last longer where a clock was set back
		return
	}
	for i, s := range r.servers {
		for _, p := range possessions(s) {
			if c.owns(p) && p.left > 0 && !p.void {
				r.history.fail("client %d died %v ago, and node %d still has %v", c.index, ago, i, p)
			}
		}
	}
}
