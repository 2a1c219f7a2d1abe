package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// tables are those of the page.
func (w workload) tables(r *results) (all []table) {
	if w.page == nil {
		return nil
	}
	for _, t := range w.page(r) {
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// data is the CSV files of a run: one for each workload, the targets, and the facts.
func (rep *report) data() []table {
	targets := table{title: "targets", head: []string{"what", "target", "measured", "verdict", "reason"}}
	for _, c := range rep.checks {
		targets.rows = append(targets.rows, []string{c.what, c.target, c.measured, c.verdict(), c.why()})
	}
	facts := table{title: "run", head: []string{"key", "value"}}
	for _, f := range rep.facts {
		facts.rows = append(facts.rows, []string{f.key, f.value})
	}
	for _, note := range rep.results.notes {
		facts.rows = append(facts.rows, []string{noteKey, note})
	}
	all := []table{facts, targets}
	for _, w := range rep.plan {
		if t := w.data(rep.results); len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// writeText is what the program prints at its end.
func (rep *report) writeText(w io.Writer) {
	for _, work := range rep.plan {
		for _, t := range work.tables(rep.results) {
			t.writeText(w)
		}
	}
	for _, t := range rep.data() {
		t.writeText(w)
	}
	fmt.Fprintf(w, "\n%s\n", rep.summary())
}

// intro begins the page.
const intro = `The cost of a lock over five Redis masters, for this library and its peers: one run, with local servers on
the same processors. Absolute figures are this machine's; ratios travel better. All are medians over the rounds, and
ratios are taken round by round.

This page is generated: ` + "`make bench-full`" + ` measures again. [benchmarks/README.md](../benchmarks/README.md)
says what the machine needs, and how to read the figures. [performance.md](performance.md) has their causes, and what
[peers without Redis](performance.md#peers-without-redis) took. [comparison.md](comparison.md) says when to use which
peer. [run.csv](benchmarks/run.csv) has the peers, with versions and settings, and the machine.`

// writePage is docs/benchmarks.md.
func (rep *report) writePage(w io.Writer) {
	fmt.Fprintf(w, "# Benchmarks\n\n%s\n", intro)
	run := table{rows: [][]string{nil}}
	for _, f := range rep.facts {
		switch f.key {
		case "date", "commit", "cpu", "processors", "go", "servers":
			run.head, run.rows[0] = append(run.head, f.key), append(run.rows[0], f.value)
		}
	}
	run.writeMarkdown(w)
	for _, work := range rep.plan {
		fmt.Fprintf(w, "\n## Workload: %s\n\n%s [All figures](benchmarks/%[1]s.csv).\n", work.name, work.about)
		for _, t := range work.tables(rep.results) {
			t.writeMarkdown(w)
		}
	}
	rep.writeMissed(w)
}

// writeMissed has the targets that are missed.
func (rep *report) writeMissed(w io.Writer) {
	fmt.Fprintf(w, "\n## Targets\n\n%s [targets.csv](benchmarks/targets.csv) has all.\n", rep.summary())
	missed, above := table{head: []string{"missed", "target", "measured", "what stands in the way"}}, ""
	for _, c := range rep.checks {
		if c.met {
			continue
		}
		why := c.why()
		if why != "" && why == above {
			why = "the same"
		}
		above = c.why()
		missed.rows = append(missed.rows, []string{c.what, c.target, c.measured, why})
	}
	if len(missed.rows) > 0 {
		missed.writeMarkdown(w)
	}
	if n := len(rep.results.notes); n > 0 {
		const where = "in [run.csv](benchmarks/run.csv)"
		fmt.Fprintf(w, "\nWhat could not be measured, or went wrong, is %s: %d notes.\n", where, n)
	}
}

// save writes all files of a run into dir.
func (rep *report) save(dir string) error {
	return errors.Join(rep.saveData(dir),
		writeFile(dir, "raw.txt", func(w io.Writer) error { return writeRaw(w, rep.facts, rep.results) }),
		writeFile(dir, "report.txt", func(w io.Writer) error { rep.writeText(w); return nil }))
}

// saveDocs writes benchmarks.md, and its data in a folder beside it.
func (rep *report) saveDocs(dir string) error {
	return errors.Join(rep.saveData(filepath.Join(dir, "benchmarks")),
		writeFile(dir, "benchmarks.md", func(w io.Writer) error { rep.writePage(w); return nil }))
}

// saveData writes the CSV files.
func (rep *report) saveData(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	for _, t := range rep.data() {
		err = errors.Join(err, writeFile(dir, t.title+".csv", t.writeCSV))
	}
	return err
}

func writeFile(dir, name string, write func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
