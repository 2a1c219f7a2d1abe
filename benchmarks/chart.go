package main

import (
	"math"

	"gonum.org/v1/plot/plotter"
)

// chart is one picture of the report.
type chart struct {
	name   string // of its files
	title  string
	xLabel string
	yLabel string
	logX   bool
	logY   bool
	series []series
	groups []string // what each series has one bar for; nil for lines
}

// series is one peer's line, or its bars.
type series struct {
	name   string
	points plotter.XYs    // of a line
	bars   plotter.Values // NaN where there is none
}

// only is the part of the results whose settings have that value.
func (r *results) only(key, value string) *results {
	part := newResults()
	for _, e := range r.entries {
		if e.param(key) == value {
			part.add(e.cell, e.ops, e.figures)
		}
	}
	return part
}

// without is the part of the results of all peers but those.
func (r *results) without(left func(peer string) bool) *results {
	part := newResults()
	for _, e := range r.entries {
		if !left(e.peer) {
			part.add(e.cell, e.ops, e.figures)
		}
	}
	return part
}

// lines has a line for each peer, over a number in the settings; values are
// divided by the scale.
func (r *results) lines(workload, name, title, key, unit, label string, scale float64) chart {
	c := chart{name: name, title: title, xLabel: key, yLabel: label}
	for _, peer := range r.peers(workload) {
		s := series{name: peer}
		for _, setting := range r.settings(workload) {
			at := cell{workload, peer, setting}
			x, y := at.number(key), r.median(at, unit)/scale
			if !math.IsNaN(x) && !math.IsNaN(y) && x > 0 && y > 0 {
				s.points = append(s.points, plotter.XY{X: x, Y: y})
			}
		}
		if len(s.points) > 1 {
			c.series = append(c.series, s)
		}
	}
	c.logX, c.logY = c.wide(func(p plotter.XY) float64 { return p.X }), c.wide(func(p plotter.XY) float64 { return p.Y })
	return c
}

// wide reports whether values are too far apart for an axis in equal steps.
func (c chart) wide(of func(plotter.XY) float64) bool {
	least, most := math.Inf(1), 0.0
	for _, s := range c.series {
		for _, p := range s.points {
			least, most = min(least, of(p)), max(most, of(p))
		}
	}
	return most > 20*least
}

// bars has a group of bars, one for each peer, for each value of a key.
func (r *results) bars(workload, name, title, key, unit, label string, scale float64) chart {
	c := chart{name: name, title: title, xLabel: key, yLabel: label}
	settings := r.settings(workload)
	for _, setting := range settings {
		c.groups = append(c.groups, cell{setting: setting}.param(key))
	}
	for _, peer := range r.peers(workload) {
		s := series{name: peer}
		for _, setting := range settings {
			s.bars = append(s.bars, r.median(cell{workload, peer, setting}, unit)/scale)
		}
		c.series = append(c.series, s)
	}
	return c
}

func (c chart) empty() bool { return len(c.series) == 0 || c.groups != nil && len(c.groups) == 0 }
