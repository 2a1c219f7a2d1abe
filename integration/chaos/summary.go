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
	Count  map[Kind]int
	Shares int            // the number of acquisitions that were shares
	Why    map[string]int // refusals by reason
	Faults map[Fault]int
	Phases int

	Ops        int // that were checked
	Violations int
	Gap        Gap
	Took       time.Duration
}

// Gap is a time without a grant of a lock in one mode, although a majority of the nodes was
// healthy.
type Gap struct {
	Name     string
	Shared   bool // no share was granted; else no lease that holds the lock alone
	From, To time.Duration
}

func (g Gap) String() string {
	who := "writers"
	if g.Shared {
		who = "readers"
	}
	return fmt.Sprintf("%v to %v, of %s, for %s", g.From, g.To, g.Name, who)
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
	for why, n := range h.Why {
		s.Why[why] += n
	}
	for name, ops := range h.Locks {
		for _, shared := range []bool{false, true} {
			if gap := longestGap(name, shared, ops, well); gap.Length() > s.Gap.Length() {
				s.Gap = gap
			}
		}
	}
}

// Span is from one instant to another.
type Span struct{ From, To time.Duration }

// longestGap returns the longest gap of the lock in this mode: none where no lease was granted
// in it.
func longestGap(name string, shared bool, ops []Op, well []Span) Gap {
	var grants []time.Duration
	for _, op := range ops {
		if op.Kind == Acquire && op.Shared == shared {
			grants = append(grants, op.Return)
		}
	}
	longest := Gap{Name: name, Shared: shared}
	if len(grants) == 0 {
		return longest
	}
	slices.Sort(grants)
	for _, span := range well {
		last := span.From
		for _, at := range append(grants[:len(grants):len(grants)], span.To) {
			if at <= span.From || at > span.To {
				continue
			}
			if at-last > longest.Length() {
				longest.From, longest.To = last, at
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
	fmt.Fprintf(&b, "  (%v)", s.Gap)
	return b.String()
}
