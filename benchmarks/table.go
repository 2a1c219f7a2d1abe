package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// table is one table of the report.
type table struct {
	title string
	head  []string
	rows  [][]string
}

// column is one figure of a table.
type column struct {
	title string
	unit  string
	show  func(float64) string
}

func whole(v float64) string      { return shown("%.0f", v) }
func hundredths(v float64) string { return shown("%.2f", v) }
func times(v float64) string      { return shown("%.3fx", v) }
func ratio(v float64) string      { return shown("%.2fx", v) }
func percent(v float64) string    { return shown("%.0f %%", 100*v) }

// micros shows nanoseconds, from 10 ms on as milliseconds.
func micros(v float64) string {
	if v >= 1e7 {
		return shown("%.1f ms", v/1e6)
	}
	return shown("%.1f µs", v/1e3)
}

func shown(format string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// byPeer has a row for each peer measured in a setting: the ratios to the base,
// round by round, then the figures, each the median over the rounds.
func (r *results) byPeer(workload, setting, title, base string, ratios, columns []column) table {
	t := table{title: title, head: []string{"peer"}}
	for _, c := range append(append([]column{}, ratios...), columns...) {
		t.head = append(t.head, c.title)
	}
	for _, peer := range r.peers(workload) {
		at := cell{workload, peer, setting}
		if len(r.rounds[at]) == 0 {
			continue
		}
		row := []string{peer}
		for _, c := range ratios {
			v, ok := r.ratio(at, cell{workload, base, setting}, c.unit)
			if !ok {
				v.median = math.NaN()
			}
			row = append(row, c.show(v.median))
		}
		for _, c := range columns {
			row = append(row, c.show(r.median(at, c.unit)))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// addRatio puts a ratio of each peer before its figures.
func (t *table) addRatio(title string, of func(peer string) (spread, bool)) {
	t.head = append([]string{t.head[0], title}, t.head[1:]...)
	for i, row := range t.rows {
		text := "-"
		if v, ok := of(row[0]); ok {
			text = ratio(v.median)
		}
		t.rows[i] = append([]string{row[0], text}, row[1:]...)
	}
}

// bySetting has a row for each setting and a column for each peer, of one figure.
func (r *results) bySetting(workload, title string, c column) table {
	t := table{title: title, head: append([]string{"setting"}, r.peers(workload)...)}
	for _, setting := range r.settings(workload) {
		row := []string{strings.ReplaceAll(setting, "/", ", ")}
		for _, peer := range r.peers(workload) {
			row = append(row, c.show(r.median(cell{workload, peer, setting}, c.unit)))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// checksTable shows targets and what became of them.
func checksTable(checks []check) table {
	t := table{title: "Targets", head: []string{"what", "target", "measured", "verdict", "what stands in the way"}}
	for _, c := range checks {
		measured := c.measured
		if measured == "" {
			measured = "-"
		}
		t.rows = append(t.rows, []string{c.what, c.target, measured, c.verdict(), c.why()})
	}
	return t
}

// writeText shows it in columns.
func (t table) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", t.title)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	_ = out.Flush()
}

// writeMarkdown shows it as Markdown wants it, under a heading of that level.
func (t table) writeMarkdown(w io.Writer, level int) {
	if t.title != "" {
		fmt.Fprintf(w, "\n%s %s\n", strings.Repeat("#", level), t.title)
	}
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}
