package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary is the report of a run.
type Summary struct {
	Count   map[Kind]int
	Shares  int            // acquisitions that were shares
	Sets    int            // acquisitions of several locks at once
	Permits int            // acquisitions of permits
	Why     map[string]int // refusals by reason
	Faults  map[Fault]int
	Phases  int

	Ops        int // that were checked
	Violations int
	Gap        Gap // without any grant
	ModeGap    Gap // without a grant to a writer, or without one to a reader, or to a set
	Took       time.Duration
}

// Gap is a time without a grant of a lock, although a majority of the nodes was healthy.
type Gap struct {
	Name     string
	From, To time.Duration
}

// Length is how long it lasted.
func (g Gap) Length() time.Duration { return g.To - g.From }

// NewSummary returns an empty summary.
func NewSummary() *Summary {
	return &Summary{Count: map[Kind]int{}, Why: map[string]int{}, Faults: map[Fault]int{}}
}

// AddPhase counts a phase.
func (s *Summary) AddPhase(p Phase) {
	s.Phases++
	for _, b := range slices.Concat(p.Nodes, p.Clients) {
		s.Faults[b.Fault]++
	}
}

// Add counts the clients' operations. In each of the spans a majority of the nodes was
// healthy.
func (s *Summary) Add(h *History, well []Span) {
	for kind, n := range h.Count {
		s.Count[kind] += n
	}
	s.Shares += h.Shares
	s.Sets += h.Sets
	s.Permits += h.Permits
	for why, n := range h.Why {
		s.Why[why] += n
	}
	for name, ops := range h.Locks {
		s.Gap = longer(s.Gap, longestGap(name, ops, well))
		s.ModeGap = longer(s.ModeGap, longestGap(name+" (writers)", grantsOf(ops, ofWriter), well))
		if readers := grantsOf(ops, ofReader); len(readers) > 0 { // not every lock has readers
			s.ModeGap = longer(s.ModeGap, longestGap(name+" (readers)", readers, well))
		}
		if sets := grantsOf(ops, ofSet); len(sets) > 0 {
			s.ModeGap = longer(s.ModeGap, longestGap(name+" (sets)", sets, well))
		}
	}
}

// longer returns the longer gap, and the first of two that are equally long.
func longer(a, b Gap) Gap {
	if b.Length() > a.Length() {
		return b
	}
	return a
}

// Span is from one instant to another.
type Span struct{ From, To time.Duration }

func longestGap(name string, ops []Op, well []Span) Gap {
	var grants []time.Duration
	for _, op := range ops {
		if op.Kind == Acquire {
			grants = append(grants, op.Return)
		}
	}
	slices.Sort(grants)
	longest := Gap{Name: name}
	for _, span := range well {
		last := span.From
		for _, at := range append(grants[:len(grants):len(grants)], span.To) {
			if at <= span.From || at > span.To {
				continue
			}
			if at-last > longest.Length() {
				longest = Gap{Name: name, From: last, To: at}
			}
			last = at
		}
	}
	return longest
}

func (s *Summary) String() string {
	var b strings.Builder
	row := func(what string, n any) { fmt.Fprintf(&b, "\n  %-34s %8v", what, n) }
	fmt.Fprintf(&b, "summary of %v", s.Took.Round(time.Second))
	row("acquisitions", s.Count[Acquire])
	row("  of them, shares", s.Shares)
	row("  of them, several locks at once", s.Sets)
	row("  of them, permits", s.Permits)
	row("downgrades", s.Count[Downgrade])
	row("refusals", s.Count[Refused])
	for _, why := range slices.Sorted(maps.Keys(s.Why)) {
		row("  "+why, s.Why[why])
	}
	row("leases that ended before Unlock", s.Count[Lost])
	row("stale reads and writes refused", s.Count[StaleRead]+s.Count[StaleWrite])
	row("writes done too late, unfenced", s.Count[Late])
	row("phases", s.Phases)
	for _, fault := range slices.Sorted(maps.Keys(s.Faults)) {
		row("  "+string(fault), s.Faults[fault])
	}
	row("operations checked", s.Ops)
	row("violations", s.Violations)
	row("longest unavailability", s.Gap.Length().Round(time.Millisecond))
	fmt.Fprintf(&b, "  of %s", s.Gap.Name)
	row("  for writers, readers or sets", s.ModeGap.Length().Round(time.Millisecond))
	fmt.Fprintf(&b, "  of %s", s.ModeGap.Name)
	return b.String()
}
