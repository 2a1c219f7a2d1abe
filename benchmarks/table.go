package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is one table of the report, or one CSV file.
type table struct {
	title string
	head  []string
	rows  [][]string
}

// column is one column of a table that has a row for each peer.
type column struct {
	title string
	of    func(peer string) string
}

func whole(v float64) string      { return shown("%.0f", v) }
func hundredths(v float64) string { return shown("%.2f", v) }
func times(v float64) string      { return shown("%.3fx", v) }

// micros shows nanoseconds as microseconds.
func micros(v float64) string {
	if v >= 1e7 {
		return shown("%.0f", v/1e3)
	}
	return shown("%.1f", v/1e3)
}

// unknown stands where nothing was measured.
const unknown = "-"

func shown(format string, v float64) string {
	if math.IsNaN(v) {
		return unknown
	}
	return fmt.Sprintf(format, v)
}

// column has the medians of a figure over the rounds.
func (r *results) column(title, workload, setting, unit string, show func(float64) string) column {
	return column{title, func(peer string) string { return show(r.median(cell{workload, peer, setting}, unit)) }}
}

// against has this library's figure in a cell as a multiple of each peer's there.
func (r *results) against(title string, ours cell, unit string) column {
	return column{title, func(peer string) string {
		if peer == redlockDefault.name || peer == redlockUnfenced.name {
			return unknown
		}
		return r.shownRatio(ours, cell{ours.workload, peer, ours.setting}, unit)
	}}
}

func (r *results) shownRatio(a, b cell, unit string) string {
	if v, ok := r.ratio(a, b, unit); ok {
		return fmt.Sprintf("%.2fx", v.median)
	}
	return unknown
}

// byPeer leaves out peers without figures.
func byPeer(title string, peers []string, columns ...column) table {
	t := table{title: title, head: []string{"peer"}}
	for _, c := range columns {
		t.head = append(t.head, c.title)
	}
	for _, peer := range peers {
		row := []string{peer}
		for _, c := range columns {
			row = append(row, c.of(peer))
		}
		if slices.ContainsFunc(row[1:], func(text string) bool { return text != unknown }) {
			t.rows = append(t.rows, row)
		}
	}
	return t
}

// data is the workload's CSV: a row for each peer in each setting, with medians over the rounds.
// Times are in microseconds.
func (w workload) data(r *results) table {
	t := table{title: w.name}
	parts := append([]string{w.name}, w.parts...)
	for _, setting := range r.settings(parts...) {
		t.head = nil
		var values []string
		for pair := range strings.SplitSeq(setting, "/") {
			key, value, _ := strings.Cut(pair, "=")
			t.head, values = append(t.head, key), append(values, value)
		}
		for _, peer := range r.peers(parts...) {
			row := append(slices.Clone(values), peer)
			measured := func(part string) bool { return len(r.rounds[cell{part, peer, setting}]) > 0 }
			if slices.ContainsFunc(parts, measured) {
				t.rows = append(t.rows, append(row, w.dataOf(r, parts, peer, setting)...))
			}
		}
	}
	t.head = append(t.head, "peer")
	for _, unit := range w.figures {
		t.head = append(t.head, inMicros(unit))
	}
	for _, unit := range w.ratios {
		t.head = append(t.head, inMicros(unit)+"-ratio")
	}
	return t
}

// inMicros is the name that a CSV has for a unit.
func inMicros(unit string) string { return strings.Replace(unit, "-ns", "-us", 1) }

// dataOf is the rest of a row: a figure has the name of the first part that measured it.
func (w workload) dataOf(r *results, parts []string, peer, setting string) (row []string) {
	for _, unit := range w.figures {
		text := ""
		for _, part := range parts {
			if v, ok := r.of(cell{part, peer, setting}, unit); ok && text == "" {
				if inMicros(unit) != unit {
					v.median /= 1e3
				}
				text = precise(v.median)
			}
		}
		row = append(row, text)
	}
	at := cell{w.name, peer, setting}
	base := cell{w.name, redlockDefault.name, setting}
	if w.base != nil {
		base = w.base(at)
	}
	for _, unit := range w.ratios {
		text := ""
		if v, ok := r.ratio(at, base, unit); ok {
			text = precise(v.median)
		}
		row = append(row, text)
	}
	return row
}

// precise has up to four decimals.
func precise(v float64) string { return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64) }

// writeCSV writes the head and the rows.
func (t table) writeCSV(w io.Writer) error {
	return csv.NewWriter(w).WriteAll(append([][]string{t.head}, t.rows...))
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

// writeMarkdown shows it as Markdown wants it, under a heading if it has a title.
func (t table) writeMarkdown(w io.Writer) {
	if t.title != "" {
		fmt.Fprintf(w, "\n### %s\n", t.title)
	}
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}
