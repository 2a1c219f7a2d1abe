package overview

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// lookSlack is how exactly a look shows when a key ends: it is asked for when it begins, and the answer comes
	// after that.
	lookSlack = 50 * time.Millisecond

	// passSlack is lookSlack for a pass: names are asked for in batches, and a silent node holds up a batch for a node
	// timeout.
	passSlack = 750 * time.Millisecond

	// sameEnd is by how much the end of a key may move without a change that anybody sees.
	sameEnd = 300 * time.Millisecond
)

// picture is all that is known of the locks. Run's goroutine has it.
type picture struct {
	facts   map[key]*fact
	home    map[key]*entry // where each fact is
	entries []*entry
	version uint64 // of entries: it grows with each change
	changed bool   // the last pass has changed something that somebody sees
}

// replace makes the picture of a pass that saw all names. Facts that a look has shown since the pass began stay.
func (p *picture) replace(found []*fact, begun time.Duration) {
	facts := make(map[key]*fact, len(found))
	changed := make(map[key]bool)
	for _, f := range found {
		if known := facts[f.key]; known != nil && known.at >= f.at {
			continue
		}
		old := p.facts[f.key]
		if old != nil && old.at > f.at {
			facts[f.key] = old
			continue
		}
		facts[f.key] = merge(old, f, passSlack)
		if !same(old, facts[f.key]) {
			changed[f.key] = true
		}
	}
	for k, old := range p.facts {
		if facts[k] == nil && old.at > begun {
			facts[k] = old
		}
	}
	p.changed = len(changed) > 0 || len(facts) != len(p.facts)
	p.facts = facts
	p.regroup(changed)
}

// add adds what a pass saw that did not see all names.
func (p *picture) add(found []*fact) {
	changed := make(map[key]bool)
	for _, f := range found {
		if old := p.facts[f.key]; old == nil || old.at <= f.at {
			p.put(f, passSlack, changed)
		}
	}
	p.regroup(changed)
}

// put puts a fact in the place of the one that is known.
func (p *picture) put(f *fact, slack time.Duration, changed map[key]bool) {
	old := p.facts[f.key]
	now := merge(old, f, slack)
	p.facts[f.key] = now
	if !same(old, now) {
		changed[f.key] = true
	} else if e := p.home[f.key]; e != nil {
		if i := slices.Index(e.facts, old); i >= 0 {
			e.facts[i] = now
		}
	}
}

// regroup makes the entries anew. An entry of which nothing has changed keeps its row.
func (p *picture) regroup(changed map[key]bool) {
	before := p.home
	p.entries = group(slices.Collect(maps.Values(p.facts)))
	p.home = make(map[key]*entry, len(p.facts))
	for _, e := range p.entries {
		old := before[e.facts[0].key]
		keep := old != nil && len(old.facts) == len(e.facts)
		for _, f := range e.facts {
			p.home[f.key] = e
			keep = keep && !changed[f.key] && before[f.key] == old
		}
		if keep {
			e.row = old.row
		}
	}
	p.version++
}

// refresh puts what a look has shown into the picture, and returns the entries that took the place of others; none
// if nothing has changed.
func (p *picture) refresh(all []sighting) (fresh []*entry) {
	changed := make(map[key]bool)
	for i := range all {
		seen := &all[i]
		for _, f := range seen.facts {
			p.put(f, seen.slack, changed)
		}
		for _, k := range seen.none {
			if p.facts[k] != nil {
				nothing := seen.nothing
				nothing.key = k
				p.put(&nothing, seen.slack, changed)
			}
		}
	}
	var loose []*fact
	touched := make(map[*entry]bool)
	for k := range changed {
		e := p.home[k]
		if e == nil {
			loose = append(loose, p.facts[k])
			e = p.semaphoreOf(k) // of which a permit or the queue is new
		}
		if e != nil {
			touched[e] = true
		}
	}
	for e := range touched {
		for _, f := range e.facts {
			loose = append(loose, p.facts[f.key])
		}
	}
	if len(loose) == 0 {
		return nil
	}
	return p.exchange(touched, p.withoutEmptySlots(loose))
}

// semaphoreOf returns the entry of the semaphore that a key is of; nil if there is none.
func (p *picture) semaphoreOf(k key) *entry {
	if k.slot == noSlot {
		return nil
	}
	for slot := queueSlot; slot < protocol.MaxPermits; slot++ {
		if e := p.home[key{k.name, slot}]; e != nil && slot != noSlot {
			return e
		}
	}
	return nil
}

// withoutEmptySlots drops the slots of semaphores that are free, and their queues that are empty, but for one of them: a
// row that becomes free shows until the next pass.
func (p *picture) withoutEmptySlots(loose []*fact) []*fact {
	slices.SortFunc(loose, func(a, b *fact) int { return strings.Compare(a.key.name, b.key.name) })
	used := make(map[string]int)
	for _, f := range loose {
		if f.key.slot != noSlot && f.state != Free {
			used[f.key.name]++
		}
	}
	return slices.DeleteFunc(loose, func(f *fact) bool {
		if f.key.slot == noSlot || f.state != Free {
			return false
		}
		if used[f.key.name]++; used[f.key.name] == 1 {
			return false
		}
		delete(p.facts, f.key)
		delete(p.home, f.key)
		return true
	})
}

// exchange puts entries made of facts in the place of others.
func (p *picture) exchange(old map[*entry]bool, facts []*fact) (fresh []*entry) {
	fresh = group(facts)
	for e := range old {
		e.gone = true
	}
	p.entries = slices.DeleteFunc(p.entries, func(e *entry) bool { return e.gone })
	p.entries = append(p.entries, fresh...)
	for _, e := range fresh {
		for _, f := range e.facts {
			p.home[f.key] = e
		}
	}
	p.version++
	return fresh
}

// merge returns a new fact, with what the one before it knew: the trends of its claims, and all of it where too few
// masters have answered.
func merge(old, f *fact, slack time.Duration) *fact {
	if f.state == Incomplete && old != nil && old.state != Incomplete && old.state != Free {
		stale := *old
		stale.at, stale.stale, stale.says, stale.words = f.at, true, f.says, wordsAbout(old, f)
		return &stale
	}
	for i := range f.claims {
		c := &f.claims[i]
		c.trend = first(f.at, c.ends)
		if old != nil && !old.stale {
			for k := range old.claims {
				if before := &old.claims[k]; before.owner == c.owner {
					c.trend = before.trend.next(f.at, c.ends, slack, c.since.IsZero())
				}
			}
		}
		if f.state == Resting && c.ends != system.Forever {
			c.trend.direction = RunsDown
		}
	}
	return f
}

// wordsAbout returns what the masters say, in a fact of too few, about the holder that is known.
func wordsAbout(known, says *fact) string {
	if len(known.claims) == 0 || known.claims[0].words == "" {
		return says.words
	}
	for i := range says.claims {
		if c := &says.claims[i]; c.owner == known.claims[0].owner && c.words != "" {
			return c.words
		}
	}
	return strings.ReplaceAll(says.words, string(letterHolder), string(letterOther))
}

// same reports whether nobody sees a difference between two facts; but for the time left, which goes by.
func same(a, b *fact) bool {
	if a == nil || a.state != b.state || a.stale != b.stale || a.says != b.says || a.by != b.by || a.words != b.words ||
		a.token != b.token || a.asks != b.asks {
		return false
	}
	return slices.EqualFunc(a.claims, b.claims, func(a, b claim) bool {
		return a.owner == b.owner && a.nodes == b.nodes && a.holds == b.holds && a.words == b.words &&
			a.trend.direction == b.trend.direction && (a.ends-b.ends).Abs() < sameEnd
	}) && slices.EqualFunc(a.waiters, b.waiters, func(a, b redlock.WaiterStatus) bool {
		return a.Ticket == b.Ticket && a.Nodes == b.Nodes && a.Label == b.Label
	})
}

// counts returns the counts of the picture.
func (p *picture) counts(now time.Time) (c Counts) {
	for _, e := range p.entries {
		if e.state == Free && len(e.waiters) == 0 {
			continue
		}
		c.Locks++
		if len(e.waiters) > 0 {
			c.WaitedFor++
			c.Callers += len(e.waiters)
			c.LongestWait = max(c.LongestWait, now.Sub(e.waiters[0].Since))
		}
		if e.endless {
			c.Endless++
		}
		if e.odd != "" {
			c.Odd++
		}
	}
	return c
}
