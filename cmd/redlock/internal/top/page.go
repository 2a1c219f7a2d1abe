package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// header returns what stands above the locks: are locks available, which masters do not vote, and how much
// there is to see.
func header(s *overview.Snapshot, now time.Time, columns int) (all []line) {
	all = sentence(s, now, columns)
	all = append(all, voters(s, columns)...)
	for i := range s.Masters {
		if m := &s.Masters[i]; m.State != "up" {
			all = append(all, absent(m, now, columns)...)
		}
	}
	if s.Stale {
		text := "The list of the locks could not be renewed: " + s.Cause
		if !s.Listed.IsZero() {
			text = "The list of the locks is " + since(s.Listed, now) + " old: " + s.Cause
		}
		for _, part := range wrap(text, columns) {
			all = append(all, line{{part, warn}})
		}
	}
	return append(all, counts(s, columns))
}

// sentence returns the headline, and the time where there is room for it.
func sentence(s *overview.Snapshot, now time.Time, columns int) (all []line) {
	t := levelTone(s.Headline.Level, goodSentence)
	if t == warn {
		t = warnSentence
	}
	for _, part := range wrap(s.Headline.Text, columns) {
		all = append(all, line{{part, t}})
	}
	clock := now.Format(time.TimeOnly)
	if room := columns - all[0].width() - len(clock); room >= 2 {
		all[0] = append(all[0], span{strings.Repeat(" ", room), plain}, span{clock, dim})
	}
	return all
}

// voters returns the masters that vote, with their round trips, in the order of the column of votes.
func voters(s *overview.Snapshot, columns int) (all []line) {
	current, used := line(nil), 0
	for i := range s.Masters {
		m := &s.Masters[i]
		if m.State != "up" {
			continue
		}
		item := line{{fmt.Sprintf("%d ", m.Index), dim}, {address(m), plain}, {" ●", good}}
		if m.RoundTrip > 0 {
			item = append(item, span{" " + printable.Duration(m.RoundTrip), dim})
		}
		if w := item.width(); used > 0 && used+3+w > columns {
			all, current, used = append(all, current), nil, 0
		}
		if used > 0 {
			current, used = append(current, span{"   ", plain}), used+3
		}
		current, used = append(current, item...), used+item.width()
	}
	if used > 0 {
		all = append(all, current.cut(columns))
	}
	return all
}

// absent returns a master that does not vote: since when, why, and what to do.
func absent(m *overview.Master, now time.Time, columns int) (all []line) {
	t := levelTone(m.Level, warn)
	text := fmt.Sprintf("%d %s ✕ %s for %s: %s", m.Index, address(m), m.State, since(m.Since, now), m.Cause)
	for i, part := range wrap(text, columns-2) {
		all = append(all, line{{indent(i), plain}, {part, t}})
	}
	for i, part := range wrap("→ "+m.Remedy, columns-2) {
		all = append(all, line{{"  " + indent(i), plain}, {part, plain}}.cut(columns))
	}
	return all
}

// indent returns the space in front of the i-th line of a text.
func indent(i int) string {
	if i == 0 {
		return ""
	}
	return "  "
}

// address returns where a master is, without the number that stands in front of it.
func address(m *overview.Master) string {
	if in, found := strings.CutPrefix(m.Node, fmt.Sprintf("node %d (", m.Index)); found {
		return strings.TrimSuffix(in, ")")
	}
	return m.Node
}

// counts returns how many locks there are, and who waits.
func counts(s *overview.Snapshot, columns int) line {
	c := &s.Counts
	l := line{{overview.Counted(c.Locks, "lock"), plain}}
	if s.View.Filter != "" {
		l[0].text += fmt.Sprintf(", %d with %s", s.Matching, printable.Quote(s.View.Filter))
	}
	if c.Callers > 0 {
		waits := "callers wait"
		if c.Callers == 1 {
			waits = "caller waits"
		}
		text := fmt.Sprintf("  %d %s for %d, the longest %s",
			c.Callers, waits, c.WaitedFor, printable.Age(c.LongestWait))
		l = append(l, span{text, plain})
	}
	if c.Odd > 0 {
		l = append(l, span{fmt.Sprintf("  %d odd", c.Odd), warn})
	}
	if s.Listed.IsZero() && !s.Stale {
		l = append(l, span{"  still listing …", dim})
	}
	return l.cut(columns)
}

// item is a line of the table, and the row that it is of; nil: a heading.
type item struct {
	row   *overview.Row
	cells cells
	title string
}

// mostPermits is how many holders of permits show below their semaphore; details have all.
const mostPermits = 5

// needTitles stand above the rows of each need.
var needTitles = map[overview.Need]string{
	overview.Waiting: "Waited for, the longest first",
	overview.Odd:     "To look at",
	overview.Rest:    "The rest",
}

// items returns the lines of the table. Where the columns have no room for what is odd about a row, that has a
// line of its own.
func items(s *overview.Snapshot, now time.Time, w [columnCount]int) (all []item) {
	byNeed := s.View.Order == overview.ByNeed || s.View.Order == ""
	for i, r := range s.Rows {
		if byNeed && (i == 0 || s.Rows[i-1].Need != r.Need) {
			all = append(all, item{title: needTitles[r.Need]})
		}
		all = append(all, item{row: r, cells: rowCells(r, now)})
		if w[colNote] == 0 && r.Odd != "" {
			all = append(all, item{row: r, title: "    " + r.Odd})
		}
		if r.Kind != overview.Permits {
			continue
		}
		for k := range r.Holders[:min(len(r.Holders), mostPermits)] {
			all = append(all, item{row: r, cells: permitCells(&r.Holders[k], r, now)})
		}
		if more := len(r.Holders) - mostPermits; more > 0 {
			c := cells{}
			c[colHolder] = line{{fmt.Sprintf("and %d more", more), dim}}
			all = append(all, item{row: r, cells: c})
		}
	}
	return all
}

// line returns the item as a line of the table.
func (i *item) line(w [columnCount]int) line {
	if i.title != "" {
		return line{{i.title, dim}}
	}
	return i.cells.line(w)
}

// nothing is what shows in place of the rows if there are none.
func nothing(s *overview.Snapshot) string {
	switch {
	case s.View.Filter != "":
		return "No lock, holder or waiter has " + printable.Quote(s.View.Filter) + " in its name."
	case s.Stale:
		return "No lock is known."
	}
	return "Nothing is locked, and nobody waits."
}
