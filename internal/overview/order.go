package overview

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// shown is a view's entries in its order. Watchers of equal views share one.
type shown struct {
	view    View
	filter  string   // in lower case
	order   []*entry // that the filter lets through
	version uint64   // of the picture
	last    *Snapshot
	of      uint64 // the run's changes, of last
}

func newShown(v View) *shown { return &shown{view: v, filter: strings.ToLower(v.Filter)} }

// arrange sorts all entries.
func (s *shown) arrange(p *picture) {
	s.order = make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		if s.lets(e) {
			s.order = append(s.order, e)
		}
	}
	slices.SortFunc(s.order, s.compare)
	s.version = p.version
}

// amend removes the entries that are gone, and inserts fresh ones.
func (s *shown) amend(p *picture, fresh []*entry) {
	var more []*entry
	for _, e := range fresh {
		if s.lets(e) {
			more = append(more, e)
		}
	}
	slices.SortFunc(more, s.compare)
	merged := make([]*entry, 0, len(s.order)+len(more))
	rest := s.order
	for _, e := range more {
		at, _ := slices.BinarySearchFunc(rest, e, s.compare)
		merged, rest = append(appendPresent(merged, rest[:at]), e), rest[at:]
	}
	s.order, s.version = appendPresent(merged, rest), p.version
}

// appendPresent appends the entries that are not gone.
func appendPresent(to, from []*entry) []*entry {
	for _, e := range from {
		if !e.gone {
			to = append(to, e)
		}
	}
	return to
}

// lets reports whether the filter lets an entry through.
func (s *shown) lets(e *entry) bool { return s.filter == "" || e.matches(s.filter) }

// visible returns the entries that are looked at each second.
func (s *shown) visible() []*entry { return s.order[:min(len(s.order), MaxVisible)] }

// compare compares two entries in the view's order.
func (s *shown) compare(a, b *entry) int {
	var first int
	switch s.view.Order {
	case ByName:
	case BySince:
		first = compareTimes(a.since, b.since)
	case ByLeft:
		first = cmp.Compare(uint64(a.ends)-1, uint64(b.ends)-1) // 0, no holder, is last
	case ByWaiters:
		first = cmp.Compare(len(b.waiters), len(a.waiters))
	default:
		first = compareNeeds(a, b)
	}
	return cmp.Or(first, strings.Compare(a.facts[0].key.name, b.facts[0].key.name), cmp.Compare(a.facts[0].key.slot, b.facts[0].key.slot))
}

// compareNeeds puts the more urgent one first.
func compareNeeds(a, b *entry) int {
	if a.need != b.need {
		return cmp.Compare(a.need, b.need)
	}
	switch a.need {
	case Waiting:
		return a.waiters[0].Since.Compare(b.waiters[0].Since)
	case Odd:
		return cmp.Compare(a.rank, b.rank)
	}
	return 0
}

// compareTimes puts the earlier one first, and an unknown one last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(boolToInt(a.IsZero()), boolToInt(b.IsZero()))
	}
	return a.Compare(b)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// snapshot makes a snapshot of the view. when turns the model's clock into wall time.
func (s *shown) snapshot(common *Snapshot, when func(time.Duration) time.Time) *Snapshot {
	made := *common
	made.View, made.Matching = s.view, len(s.order)
	entries := s.order
	if !s.view.All {
		entries = s.visible()
	}
	made.Rows = make([]*Row, len(entries))
	for i, e := range entries {
		made.Rows[i] = e.makeRow(when)
	}
	return &made
}
