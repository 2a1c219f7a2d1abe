// Command benchmarks measures the cost of a lock over several Redis masters: of this library,
// its peers, and a floor, which is a lower bound for all, in one run on one machine. It
// starts its own servers. README.md explains the report.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errUnmet makes the exit code 1, with -strict, if a target was not met.
var errUnmet = errors.New("not all targets are met")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = c.run(ctx, os.Stdout, os.Stderr)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted; what was measured until then is written")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	bench  bench
	out    string
	docs   string
	again  string
	strict bool
}

func parse(args []string) (c *config, err error) {
	c = &config{bench: bench{size: quick, results: newResults()}}
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	all := flags.Bool("full", false, "measure everything: 20 minutes on two processors, else a few")
	only := flags.String("only", "", "the workloads, parted by commas: "+namesOf(workloads)+" (default all)")
	peers := flags.String("peers", "", "the peers, parted by commas (default all): "+namesOf(contenders))
	flags.IntVar(&c.bench.rounds, "rounds", 0, "rounds of each peer in each setting (default by workload)")
	flags.DurationVar(&c.bench.length, "round", 0, "length of a round (default by workload)")
	flags.StringVar(&c.out, "out", "out", "the folder for raw data and tables")
	flags.StringVar(&c.docs, "docs", "", "also write benchmarks.md into this folder, and its data into benchmarks/")
	flags.StringVar(&c.again, "from", "", "measure nothing, and write the report of this raw data again")
	flags.BoolVar(&c.strict, "strict", false, "exit with 1 when a target is not met")
	if err = flags.Parse(args); err != nil {
		return nil, err
	}
	if *all {
		c.bench.size = full
	}
	if c.bench.rounds < 0 || c.bench.length < 0 {
		return nil, errors.New("-rounds and -round must not be below 0")
	}
	if c.docs != "" && c.again == "" && (*only != "" || *peers != "" || !*all) {
		return nil, errors.New("-docs wants a -full run of all workloads and peers, or the raw data of one")
	}
	var unknown error
	c.bench.peers, err = choose("-peers", *peers, contenders)
	c.bench.workloads, unknown = choose("-only", *only, workloads)
	return c, errors.Join(err, unknown)
}

// choose returns those of all whose names are in a list, parted by commas; all for "".
func choose[T fmt.Stringer](flag, list string, all []T) ([]T, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	chosen := slices.DeleteFunc(slices.Clone(all), func(v T) bool { return !slices.Contains(names, v.String()) })
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("%s %s: choose from %s", flag, list, namesOf(all))
	}
	return chosen, nil
}

// namesOf returns the names of all, parted by commas.
func namesOf[T fmt.Stringer](all []T) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.String()
	}
	return strings.Join(names, ",")
}

// run measures, or reads what was measured, and writes the report.
func (c *config) run(ctx context.Context, out, progress io.Writer) error {
	c.bench.progress = &stopwatch{to: progress, begin: time.Now()}
	var facts []fact
	var err error
	if c.again != "" {
		facts, c.bench.results, err = readFile(c.again)
	} else {
		facts, err = c.measure(ctx)
	}
	if err != nil && len(c.bench.results.entries) == 0 {
		return err
	}
	rep := newReport(facts, c.bench.results, c.bench.workloads)
	rep.writeText(out)
	err = errors.Join(err, rep.save(c.out))
	if c.docs != "" && err == nil {
		err = rep.saveDocs(c.docs)
	}
	if err == nil && c.strict && unmet(rep.checks) > 0 {
		err = errUnmet
	}
	if full, e := filepath.Abs(c.out); e == nil {
		fmt.Fprintf(progress, "raw data and tables: %s\n", full)
	}
	return err
}

// measure does all that the flags ask for, between the start and the end of the
// servers.
func (c *config) measure(ctx context.Context) ([]fact, error) {
	servers, err := startServers(maxNodes)
	if err != nil {
		return nil, err
	}
	defer servers.stop()
	c.bench.servers = servers
	facts, err := factsOf(&c.bench)
	if err != nil {
		return nil, err
	}
	return facts, errors.Join(c.bench.admit(ctx), c.bench.run(ctx))
}

func readFile(name string) ([]fact, *results, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, newResults(), err
	}
	defer file.Close()
	return readRaw(file)
}

// stopwatch puts the time since the begin before each line of progress.
type stopwatch struct {
	to    io.Writer
	begin time.Time
}

func (s *stopwatch) Write(line []byte) (int, error) {
	fmt.Fprintf(s.to, "%6.1fs  %s", time.Since(s.begin).Seconds(), line)
	return len(line), nil
}
