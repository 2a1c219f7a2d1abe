package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// report is a run as people read it.
type report struct {
	facts   []fact
	results *results
	checks  []check
	plan    []workload // what was to be measured
}

func newReport(facts []fact, r *results, plan []workload) *report {
	rep := &report{facts: facts, results: r, plan: plan}
	for _, w := range plan {
		rep.checks = append(rep.checks, w.targets(r)...)
	}
	return rep
}

// summary is one line on all targets.
func (rep *report) summary() string {
	n := unmet(rep.checks)
	if n == 0 {
		return fmt.Sprintf("All %d targets are met.", len(rep.checks))
	}
	return fmt.Sprintf("%d of %d targets are NOT met, or not measured.", n, len(rep.checks))
}

// headline returns the most important ratios of this library's figures to each peer's. The
// figures themselves are in the tables.
func (rep *report) headline() table {
	t := table{title: "Ratios: this library / peer", head: []string{"peer", "pairs/s, 128 goroutines", "the same without tokens",
		"Lock p50, 1 goroutine", "client CPU/pair, 128 goroutines", "sections/s, 16 clients on one name"}}
	r := rep.results
	busy, alone := pairsSetting(nodes, manyGoroutines), pairsSetting(nodes, 1)
	for _, peer := range r.peers("pairs") {
		if peer == redlockDefault.name || peer == redlockUnfenced.name {
			continue
		}
		row := []string{peer}
		for _, x := range []struct{ workload, ours, setting, unit string }{
			{"pairs", redlockDefault.name, busy, "pairs/s"},
			{"pairs", redlockUnfenced.name, busy, "pairs/s"},
			{"pairs", redlockDefault.name, alone, "lock-p50-ns"},
			{"pairs", redlockDefault.name, busy, "cpu-ns/op"},
			{"contention", redlockDefault.name, contentionSetting(fewWaiters), "sections/s"},
		} {
			text := "-"
			if v, ok := r.ratio(cell{x.workload, x.ours, x.setting}, cell{x.workload, peer, x.setting}, x.unit); ok {
				text = ratio(v.median)
			}
			row = append(row, text)
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// writeText is what the program prints at its end.
func (rep *report) writeText(w io.Writer) {
	if t := rep.headline(); len(t.rows) > 0 {
		t.writeText(w)
	}
	checksTable(rep.checks).writeText(w)
	fmt.Fprintf(w, "\n%s\n", rep.summary())
	for _, note := range rep.results.notes {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	for _, work := range rep.plan {
		for _, t := range work.tables(rep.results) {
			if len(t.rows) > 0 {
				t.writeText(w)
			}
		}
	}
}

// writeMarkdown is report.md and docs/benchmarks.md; pictures is where its
// charts are, seen from it.
func (rep *report) writeMarkdown(w io.Writer, pictures string) {
	fmt.Fprintf(w, "# Benchmarks\n\n%s\n", rep.summary())
	if t := rep.headline(); len(t.rows) > 0 {
		t.writeMarkdown(w, 2)
		fmt.Fprintf(w, "\nMedians over the rounds of ratios taken round by round. At pairs/s and sections/s more is better, at Lock p50 and CPU less.\n")
	}
	checksTable(rep.checks).writeMarkdown(w, 2)
	rep.writeNotes(w)
	rep.writeSetting(w)
	for _, work := range rep.plan {
		fmt.Fprintf(w, "\n## Workload: %s\n\n%s\n", work.name, work.about)
		for _, c := range work.charts(rep.results) {
			if !c.empty() {
				fmt.Fprintf(w, "\n![%s](%s)\n", c.title, path.Join(pictures, c.name+".svg"))
			}
		}
		for _, t := range work.tables(rep.results) {
			if len(t.rows) > 0 {
				t.writeMarkdown(w, 3)
			}
		}
	}
}

func (rep *report) writeNotes(w io.Writer) {
	if len(rep.results.notes) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## What could not be measured, or went wrong\n\n")
	for _, note := range rep.results.notes {
		fmt.Fprintf(w, "- %s\n", note)
	}
}

// writeSetting writes the machine, the date, the peers, and how to repeat the run.
func (rep *report) writeSetting(w io.Writer) {
	machine := table{title: "Machine and versions", head: []string{"", ""}}
	peers := table{title: "Peers", head: []string{"peer", "what it is"}}
	size := "full"
	for _, f := range rep.facts {
		if name, ok := strings.CutPrefix(f.key, peerFact); ok {
			peers.rows = append(peers.rows, []string{name, f.value})
			continue
		}
		machine.rows = append(machine.rows, []string{f.key, f.value})
		if f.key == "run" {
			size = f.value
		}
	}
	machine.writeMarkdown(w, 2)
	command := "make bench"
	if size == full.String() {
		command = "make bench-full"
	}
	fmt.Fprintf(w, "\nThis page is generated. To repeat it: `%s`; benchmarks/README.md says what the machine needs, and how to read the tables. "+
		"The client and all servers share the processors named above, so absolute figures are this machine's; ratios travel better.\n", command)
	peers.writeMarkdown(w, 2)
}

// save writes all files of a run into dir.
func (rep *report) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := errors.Join(
		writeFile(filepath.Join(dir, "raw.txt"), func(w io.Writer) error { return writeRaw(w, rep.facts, rep.results) }),
		writeFile(filepath.Join(dir, "results.csv"), func(w io.Writer) error { return writeCSV(w, rep.results) }),
		writeFile(filepath.Join(dir, "report.txt"), func(w io.Writer) error { rep.writeText(w); return nil }),
		writeFile(filepath.Join(dir, "report.md"), func(w io.Writer) error { rep.writeMarkdown(w, "charts"); return nil }),
		writeFile(filepath.Join(dir, "targets.txt"), func(w io.Writer) error {
			checksTable(rep.checks).writeText(w)
			_, err := fmt.Fprintf(w, "\n%s\n", rep.summary())
			return err
		}))
	return errors.Join(err, rep.draw(filepath.Join(dir, "charts"), true))
}

// saveDocs writes benchmarks.md, and its pictures in a folder beside it.
func (rep *report) saveDocs(dir string) error {
	return errors.Join(
		writeFile(filepath.Join(dir, "benchmarks.md"), func(w io.Writer) error { rep.writeMarkdown(w, "benchmarks"); return nil }),
		rep.draw(filepath.Join(dir, "benchmarks"), false))
}

func (rep *report) draw(dir string, png bool) error {
	var err error
	for _, work := range rep.plan {
		for _, c := range work.charts(rep.results) {
			if !c.empty() {
				err = errors.Join(err, c.write(dir, png))
			}
		}
	}
	return err
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
