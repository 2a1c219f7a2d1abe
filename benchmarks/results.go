package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// cell is what is measured at once: one peer, in one setting of one workload.
type cell struct {
	workload string
	peer     string
	setting  string // key=value, parted by slashes, as the names of Go's benchmarks have it
}

// number is the value of one key of the setting; NaN where it is none.
func (c cell) number(key string) float64 {
	for pair := range strings.SplitSeq(c.setting, "/") {
		if k, value, _ := strings.Cut(pair, "="); k == key {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				return n
			}
		}
	}
	return math.NaN()
}

// figures are what one round of a cell gave, by unit. Durations are in ns.
type figures map[string]float64

// entry is one round of a cell.
type entry struct {
	cell
	ops     int // what the figures were taken from: pairs, hand-offs, renewals
	figures figures
}

// results are all rounds of a run, and what could not be measured.
type results struct {
	entries []*entry
	rounds  map[cell][]*entry
	nothing map[cell]bool // where a peer locked nothing: calls that hang take long, so it is not measured again
	notes   []string
}

func newResults() *results {
	return &results{rounds: make(map[cell][]*entry), nothing: make(map[cell]bool)}
}

func (r *results) add(c cell, ops int, f figures) {
	e := &entry{cell: c, ops: ops, figures: f}
	r.entries = append(r.entries, e)
	r.rounds[c] = append(r.rounds[c], e)
}

func (r *results) note(text string) {
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// peers are those measured in workloads, in the order of the first round.
func (r *results) peers(workloads ...string) []string {
	return r.list(workloads, func(c cell) string { return c.peer })
}

// settings are those of workloads, in the order in which they were measured.
func (r *results) settings(workloads ...string) []string {
	return r.list(workloads, func(c cell) string { return c.setting })
}

func (r *results) list(workloads []string, of func(cell) string) []string {
	var all []string
	for _, e := range r.entries {
		if v := of(e.cell); slices.Contains(workloads, e.workload) && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// spread is a figure over the rounds.
type spread struct {
	least, median, most float64
}

// spreadOf needs at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{least: v[0], median: (v[(n-1)/2] + v[n/2]) / 2, most: v[n-1]}
}

// of is the figure of a cell over its rounds; false where it was not measured.
func (r *results) of(c cell, unit string) (spread, bool) {
	var values []float64
	for _, e := range r.rounds[c] {
		if v, ok := e.figures[unit]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return spread{}, false
	}
	return spreadOf(values), true
}

// median is the same, as one number; NaN where it was not measured.
func (r *results) median(c cell, unit string) float64 {
	s, ok := r.of(c, unit)
	if !ok {
		return math.NaN()
	}
	return s.median
}

// ratio compares two cells round by round, so that a slow moment of the machine
// hardly touches it; false where one of them was not measured.
func (r *results) ratio(a, b cell, unit string) (spread, bool) {
	var values []float64
	for i := range min(len(r.rounds[a]), len(r.rounds[b])) {
		x, okX := r.rounds[a][i].figures[unit]
		y, okY := r.rounds[b][i].figures[unit]
		if okX && okY && y != 0 {
			values = append(values, x/y)
		}
	}
	if len(values) == 0 {
		return spread{}, false
	}
	return spreadOf(values), true
}
