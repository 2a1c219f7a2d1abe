package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fact is one line of what is known about a run: machine, versions, date.
type fact struct {
	key, value string
}

// noteKey begins the facts that say what could not be measured.
const noteKey = "note"

// writeRaw writes the run in the format of Go's benchmarks, one line for each
// round, so that benchstat reads it. Keys are in lower case, as that format wants.
func writeRaw(w io.Writer, facts []fact, r *results) error {
	out := bufio.NewWriter(w)
	for _, f := range facts {
		fmt.Fprintf(out, "%s: %s\n", f.key, f.value)
	}
	for _, note := range r.notes {
		fmt.Fprintf(out, "%s: %s\n", noteKey, strings.ReplaceAll(note, "\n", " "))
	}
	for _, e := range r.entries {
		fmt.Fprintf(out, "Benchmark%s/peer=%s", strings.ToUpper(e.workload[:1])+e.workload[1:], e.peer)
		if e.setting != "" {
			fmt.Fprintf(out, "/%s", e.setting)
		}
		fmt.Fprintf(out, "\t%d", e.ops)
		for _, unit := range slices.Sorted(maps.Keys(e.figures)) {
			fmt.Fprintf(out, "\t%s %s", strconv.FormatFloat(e.figures[unit], 'f', -1, 64), unit)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// readRaw reads what writeRaw wrote: a report can be made again from it.
func readRaw(in io.Reader) ([]fact, *results, error) {
	var facts []fact
	r := newResults()
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "Benchmark"); ok {
			if err := r.read(name); err != nil {
				return nil, newResults(), fmt.Errorf("line %d: %w", n, err)
			}
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		switch {
		case ok && key == noteKey:
			r.note(value)
		case ok:
			facts = append(facts, fact{key, value})
		}
	}
	return facts, r, lines.Err()
}

// read takes a line behind its word Benchmark.
func (r *results) read(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(fields)%2 != 0 {
		return fmt.Errorf("%q is not a name, a number, and pairs of value and unit", line)
	}
	workload, rest, _ := strings.Cut(fields[0], "/")
	peer, setting, _ := strings.Cut(rest, "/")
	peer, ok := strings.CutPrefix(peer, "peer=")
	if !ok {
		return fmt.Errorf("%q names no peer", fields[0])
	}
	ops, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	f := figures{}
	for i := 2; i < len(fields); i += 2 {
		if f[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
			return err
		}
	}
	r.add(cell{strings.ToLower(workload), peer, setting}, ops, f)
	return nil
}
