package main

import (
	"fmt"
	"math"
)

// check is one target and what became of it.
type check struct {
	what     string
	target   string
	measured string // "" where the run has no such figure
	met      bool
	obstacle string // what stands in the way if it is not met; "": that is not known
}

// because returns the check with what stands in its way.
func (c check) because(obstacle string) check {
	c.obstacle = obstacle
	return c
}

// why is what stands in the way of a target that is not met.
func (c check) why() string {
	if c.met || c.measured == "" {
		return ""
	}
	return c.obstacle
}

// verdict is one word, for the table.
func (c check) verdict() string {
	switch {
	case c.measured == "":
		return "not measured"
	case c.met:
		return "met"
	}
	return "NOT met"
}

func unmet(checks []check) int {
	n := 0
	for _, c := range checks {
		if !c.met {
			n++
		}
	}
	return n
}

// bound is a limit from above or from below.
type bound struct {
	relation string // "<=" or ">="
	limit    float64
	unit     string // behind the number: "x" for a ratio
}

func atMost(limit float64, unit string) bound  { return bound{"<=", limit, unit} }
func atLeast(limit float64, unit string) bound { return bound{">=", limit, unit} }

func (b bound) met(v float64) bool {
	return b.relation == "<=" && v <= b.limit || b.relation == ">=" && v >= b.limit
}

func (b bound) String() string { return fmt.Sprintf("%s %s%s", b.relation, short(b.limit), b.unit) }

// ofRatio checks the median over the rounds of a ratio of two cells.
func (b bound) ofRatio(r *results, what string, over, under cell, unit string) check {
	c := check{what: what, target: b.String()}
	if x, ok := r.ratio(over, under, unit); ok {
		c.measured = fmt.Sprintf("%.2fx (%.2f to %.2f)", x.median, x.least, x.most)
		c.met = b.met(x.median)
	}
	return c
}

// ofValue checks one number; NaN is one that was not measured.
func (b bound) ofValue(what string, v float64) check {
	c := check{what: what, target: b.String()}
	if !math.IsNaN(v) {
		c.measured, c.met = short(v)+b.unit, b.met(v)
	}
	return c
}

// short has three or four digits that count.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}
