package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/printable"
)

// profile returns a row of percentiles. It sorts the times.
func profile(name string, times []time.Duration) []string {
	slices.Sort(times)
	row := []string{name, fmt.Sprint(len(times))}
	for _, share := range []int{0, 50, 90, 99, 100} {
		row = append(row, printable.Duration(percentile(times, share)))
	}
	return row
}

// percentile returns the smallest of sorted times that a share of them, in percent, does
// not exceed.
func percentile(sorted []time.Duration, share int) time.Duration {
	return sorted[max((len(sorted)*share+99)/100, 1)-1]
}

// bounds returns the histogram's steps up to the longest time: 1, 2, 5, 10, 20, 50 and so on.
func bounds(longest time.Duration) []time.Duration {
	var all []time.Duration
	for decade := 10 * time.Microsecond; ; decade *= 10 {
		for _, step := range []time.Duration{1, 2, 5} {
			all = append(all, decade*step)
			if decade*step >= longest {
				return all
			}
		}
	}
}

const barWidth = 50

// writeHistogram draws sorted times as bars, one for each step from the first that
// has any to the last.
func writeHistogram(w io.Writer, p paint, sorted []time.Duration) {
	steps := bounds(sorted[len(sorted)-1])
	counts := make([]int, len(steps))
	for _, t := range sorted {
		i, _ := slices.BinarySearch(steps, t)
		counts[i]++
	}
	first := slices.IndexFunc(counts, func(n int) bool { return n > 0 })
	most := slices.Max(counts)
	for i := first; i < len(steps); i++ {
		bar := strings.Repeat("█", (counts[i]*barWidth+most-1)/most)
		fmt.Fprintf(w, "  ≤ %-6v %s %d\n", steps[i], p.green(bar), counts[i])
	}
}
