package overview

import (
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// lookSlack bounds the error of a key's end in a look: the answer comes some time after the
	// question.
	lookSlack = 50 * time.Millisecond

	// passSlack is lookSlack for a pass: a silent node holds up its batch of names for a node
	// timeout.
	passSlack = 750 * time.Millisecond

	// sameEnd bounds how far the end of a key may move unseen.
	sameEnd = 300 * time.Millisecond
)

// picture has all that is known of the locks. The Model's goroutine owns it.
type picture struct {
	facts      map[key]*fact
	entries    []*entry
	home       map[key]*entry    // where each fact is
	semaphores map[string]*entry // by name
	sets       map[string]*entry // by owner: entries of one owner's locks, also of one lock
	version    uint64            // of entries: it grows with each change
}

func newPicture() picture {
	return picture{facts: make(map[key]*fact), home: make(map[key]*entry), semaphores: make(map[string]*entry),
		sets: make(map[string]*entry)}
}

// replace adds a pass that saw all names, and returns the new entries. Facts of looks since the
// pass began stay.
func (p *picture) replace(found []*fact, begun time.Duration) (fresh []*entry) {
	changed, seen := p.putNewer(found), make(map[key]bool, len(found))
	for _, f := range found {
		seen[f.key] = true
	}
	for k, old := range p.facts {
		if !seen[k] && (old.at <= begun || old.state == Free && old.freeAt <= begun) {
			delete(p.facts, k)
			changed[k] = true
		}
	}
	return p.regroup(changed)
}

// add is replace for a pass that did not see all names.
func (p *picture) add(found []*fact) (fresh []*entry) {
	return p.regroup(p.putNewer(found))
}

// putNewer adds the facts of a pass, except outdated ones, and returns the changed keys.
func (p *picture) putNewer(found []*fact) (changed map[key]bool) {
	changed = make(map[key]bool)
	for _, f := range found {
		if old := p.facts[f.key]; old == nil || old.at <= f.at {
			p.put(f, passSlack, changed)
		}
	}
	return changed
}

// refresh adds the results of a look, and returns the new entries.
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
	return p.regroup(changed)
}

// put replaces the known fact, and adds its key to changed if a watcher sees a difference.
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

// regroup rebuilds the entries of these keys. If there are any, the version grows.
func (p *picture) regroup(changed map[key]bool) (fresh []*entry) {
	if len(changed) == 0 {
		return nil
	}
	var loose []*fact
	touched := make(map[*entry]bool)
	for k := range changed {
		f, e := p.facts[k], p.home[k]
		if e != nil {
			touched[e] = true
		} else if f != nil {
			loose = append(loose, f)
		}
		if e := p.joins(f); e != nil {
			touched[e] = true
		}
	}
	for e := range touched {
		p.forget(e)
		for _, f := range e.facts {
			if now := p.facts[f.key]; now != nil {
				loose = append(loose, now)
			}
		}
	}
	fresh = group(p.withoutEmptySlots(loose))
	if len(touched) > 0 {
		p.entries = slices.DeleteFunc(p.entries, func(e *entry) bool { return e.gone })
	}
	p.entries = append(p.entries, fresh...)
	for _, e := range fresh {
		p.remember(e)
	}
	p.version++
	return fresh
}

// joins returns the entry of the fact's semaphore or set; nil if there is none.
func (p *picture) joins(f *fact) *entry {
	switch {
	case f == nil:
		return nil
	case f.key.slot != noSlot:
		return p.semaphores[f.key.name]
	case f.hasOwner():
		return p.sets[f.claims[0].owner]
	}
	return nil
}

// forget removes an entry from the maps, and marks it as gone.
func (p *picture) forget(e *entry) {
	e.gone = true
	for _, f := range e.facts {
		delete(p.home, f.key)
	}
	switch f := e.facts[0]; {
	case f.key.slot != noSlot:
		delete(p.semaphores, f.key.name)
	case f.hasOwner():
		delete(p.sets, f.claims[0].owner)
	}
}

// remember adds an entry to the maps.
func (p *picture) remember(e *entry) {
	for _, f := range e.facts {
		p.home[f.key] = e
	}
	switch f := e.facts[0]; {
	case f.key.slot != noSlot:
		p.semaphores[f.key.name] = e
	case f.hasOwner():
		p.sets[f.claims[0].owner] = e
	}
}

// withoutEmptySlots drops free slots and empty queues of semaphores. It keeps one, so that a row
// that becomes free shows until the next pass.
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
		return true
	})
}

// merge returns a new fact that keeps the trends of its predecessor's claims, and if too few
// masters answered all that the predecessor knew.
func merge(old, f *fact, slack time.Duration) *fact {
	if f.state == Incomplete && old != nil && old.state != Incomplete && old.state != Free {
		stale := *old
		stale.at, stale.stale, stale.says, stale.words = f.at, true, f.says, wordsAbout(old, f)
		return &stale
	}
	if f.state == Free {
		f.freeAt = f.at
		if old != nil && old.state == Free {
			f.freeAt = old.freeAt
		}
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

// wordsAbout returns what the few masters that answer say about the known holder.
func wordsAbout(known, says *fact) string {
	if len(known.claims) == 0 || known.claims[0].words == "" {
		return says.words
	}
	text, letter := says.words, byte(letterOther)
	for i := range says.claims {
		if c := &says.claims[i]; c.owner == known.claims[0].owner && c.words != "" {
			text, letter = c.words, letterHolder
		}
	}
	switch {
	case known.state == Split: // no key is a holder's
		letter = letterOther
	case known.state == Resting && letter == letterHolder:
		letter = letterResting
	}
	return strings.ReplaceAll(text, string(letterHolder), string(letter))
}

// same reports whether two facts look alike. The time left and the token do not count: names share
// counters, so the token grows with other locks' grants.
func same(a, b *fact) bool {
	if a == nil || a.state != b.state || a.stale != b.stale || a.says != b.says || a.by != b.by || a.words != b.words ||
		a.asks != b.asks {
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
