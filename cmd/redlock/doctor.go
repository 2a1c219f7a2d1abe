package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// doctorFlags are those of redlock doctor.
type doctorFlags struct {
	ttl     time.Duration
	timeout time.Duration
	window  time.Duration
	slow    time.Duration
	offset  time.Duration
	drift   float64
	last    string
	asJSON  bool
}

const doctorHelp = `doctor reads every node's identity and settings, and measures its round trip and its
clock for a few seconds. It changes nothing there: it tries rights on keys that do not
exist. Each finding has its consequence and its remedy, and is a danger (two clients may
hold one lock, or the node grants no locks), a warning (it is dangerous in certain events),
or a note. doctor exits with 1 if there is a danger.

It looks for:

- nodes that do not answer, and why: protected mode, maxclients, loading, TLS, a sentinel, a
  wrong password;
- missing rights: for all locks, for readers, several names, permits, holders WithWanted,
  wake-ups, to list locks, to close old connections;
- servers that are unfit: replicas, cluster mode, a server given twice or without a run_id,
  programs and versions on which the library is not tested or does not work;
- servers that refuse what every lock needs (full memory, a disk that cannot be written,
  replicas that they wait for), or soon will: memory that is nearly full, failing saves;
- eviction, missing persistence, servers with replicas;
- nodes that may not vote yet (young, restarted, wiped), that belong to another list of nodes,
  or whose record is damaged;
- slow nodes, and certificates that end within two weeks;
- clocks that are off, run at another rate, or were stepped: while it looks, or with
  --last FILE since its last look;
- semaphores whose waiters give different numbers of permits (among some 100 000 keys of a
  node, and only with +scan);
- lists that tolerate little.

If the user is for some names only, give what they begin with, prefix and all, as --prefix.

It needs the rights of a client and, to read the schedule of snapshots, +config|get; it
shows a setting that it cannot read as unknown, and does not judge it. The server's ACL LOG
shows the rights that were refused.

With --json there is one object: nodes, quorum, and findings (severity, code, node,
what, consequence, remedy). A node has node, answers, error, round_trip (min_ms,
median_ms, max_ms), version (of Redis, or the one that the server is compatible with), server
(program, version; row: its row in docs/servers.md; support: tested, read (not tested, works
by its documentation), no, unknown), role, run_id, uptime_s, eviction_policy, rdb and aof (on,
off, unknown), clock (known, offset_ms from this machine's, drift_ppm, uncertainty_ppm)
and admission (state: votes, waits, new, damaged, other list, unknown; remaining_s, nodes, longest_ttl_s, masters, self, error).
Fields and codes may be added, never renamed.`

func newDoctor(s *settings) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the nodes: what endangers locks, and what to do about it",
		Long:  doctorHelp,
		Example: `  redlock doctor
  redlock doctor --for 10s --slow 20ms
  redlock doctor --last /var/tmp/redlock-clocks   # from cron: was a clock stepped since?
  redlock doctor --json | jq -r '.findings[] | select(.severity == "danger") | .what'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 10*time.Second,
		"the ttl that your locks have: the node timeout and the guard follow from it")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Second, "time for a node to answer at all")
	flags.DurationVar(&f.window, "for", 3*time.Second, "how long to measure round trips and clocks")
	flags.DurationVar(&f.slow, "slow", 0,
		"warn of a median round trip above this time (default a fifth of the node timeout)")
	flags.DurationVar(&f.offset, "clock-offset", time.Second,
		"warn of a clock that differs from the others' by more than this")
	flags.Float64Var(&f.drift, "clock-rate", 10000,
		"report a danger if a clock gains or loses more than so many `parts` per million (the library allows for 1 %)")
	flags.StringVar(&f.last, "last", "",
		"compare the clocks with those of the last look, which this `file` has, and write this look there")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object")
	return cmd
}

// limits returns the thresholds, with defaults filled in.
func (f *doctorFlags) limits(s *settings) limits {
	l := limits{guard: max(f.ttl, s.guard), nodeTimeout: s.nodeTimeout, slow: f.slow, offset: f.offset,
		driftPPM: f.drift}
	if s.guardGiven && s.guard == 0 {
		l.guard = 0
	}
	if l.nodeTimeout == 0 {
		l.nodeTimeout = min(max(f.ttl/20, 5*time.Millisecond), 500*time.Millisecond) // as the library has it
	}
	if l.slow == 0 {
		l.slow = l.nodeTimeout / 5
	}
	return l
}

func (f *doctorFlags) run(cmd *cobra.Command, s *settings) error {
	urls, err := s.urls()
	switch {
	case err != nil:
		return err
	case f.ttl <= 0 || f.timeout <= 0 || f.window < 0:
		return usage("--ttl, --timeout and --for must be above 0")
	case !(f.drift >= 0): // also not a number
		return usage("--clock-rate %v: it must be a number that is not below 0", f.drift)
	case f.slow < 0:
		return usage("--slow %v: it must not be negative", f.slow)
	case f.offset < 0:
		return usage("--clock-offset %v: it must not be negative", f.offset)
	}
	out := cmd.OutOrStdout()
	if isTerminal(cmd.ErrOrStderr()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Watching %d nodes for %v …\n", len(urls), f.window)
	}
	x := &examination{Quorum: len(urls)/2 + 1, Findings: []finding{}, limits: f.limits(s)}
	x.Nodes = examineAll(cmd.Context(), urls, look{f.timeout, f.window, trialsOf(s.prefix), s.prefix})
	if x.last, err = f.lookAgain(x); err != nil {
		return coded(err)
	}
	x.judge()
	if f.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(x)
	} else {
		x.write(out, newPaint(out))
	}
	if err == nil && x.dangers() > 0 {
		return &exit{code: codeDanger}
	}
	return coded(err)
}

// lookAgain returns the last look, and writes this one in its place; nil without --last, and at the first look.
func (f *doctorFlags) lookAgain(x *examination) (last *lastLook, err error) {
	if f.last == "" {
		return nil, nil
	}
	if last, err = readLastLook(f.last); err != nil {
		return nil, err
	}
	return last, x.look(last, time.Now()).write(f.last)
}

// examineAll examines the nodes at the same time.
func examineAll(ctx context.Context, urls []string, l look) []*nodeFacts {
	facts := make([]*nodeFacts, len(urls))
	begun := time.Now()
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() { facts[i] = examine(ctx, i, url, l, begun) })
	}
	all.Wait()
	return facts
}

// write prints the examination for people.
func (x *examination) write(w io.Writer, p paint) {
	rows := [][]string{{"NODE", "ROUND TRIP", "SERVER", "ROLE", "UP", "VOTES", "PERSISTENCE", "EVICTION", "CLOCK"}}
	for _, f := range x.Nodes {
		rows = append(rows, f.row())
	}
	writeTable(w, p, rows)
	if all, _ := x.servers(); len(all) > 0 {
		fmt.Fprintln(w)
		for _, s := range all {
			fmt.Fprintf(w, "%s: %s (%q in docs/servers.md)\n", printable.Line(s.String()), s.Support.text(), s.Row)
		}
	}
	for _, f := range alike(x.Findings) {
		colour := map[severity]func(string) string{danger: p.red, warning: p.yellow, note: p.dim}[f.Severity]
		word := strings.ToUpper(string(f.Severity))
		for i, about := range f.abouts() {
			if i == 0 {
				fmt.Fprintf(w, "\n%s  ", colour(word))
			} else {
				fmt.Fprint(w, strings.Repeat(" ", len(word)+2))
			}
			fmt.Fprintln(w, printable.Line(about))
		}
		fmt.Fprintf(w, "    so:  %s\n    do:  %s\n", printable.Line(f.Consequence), printable.Line(f.Remedy))
	}
	fmt.Fprintf(w, "\n%s\n", x.verdict(p))
}

// sameFinding is a finding at several nodes.
type sameFinding struct {
	finding
	whats []string            // what was found, each once
	nodes map[string][]string // by what was found
}

// alike joins the findings that have the same consequence and remedy: a person reads them once.
func alike(findings []finding) (all []*sameFinding) {
	for _, f := range findings {
		i := slices.IndexFunc(all, func(s *sameFinding) bool {
			return s.Severity == f.Severity && s.Code == f.Code && s.Consequence == f.Consequence &&
				s.Remedy == f.Remedy
		})
		if i < 0 {
			i, all = len(all), append(all, &sameFinding{finding: f, nodes: make(map[string][]string)})
		}
		s := all[i]
		if !slices.Contains(s.whats, f.What) {
			s.whats = append(s.whats, f.What)
		}
		if f.Node != "" {
			s.nodes[f.What] = append(s.nodes[f.What], f.Node)
		}
	}
	return all
}

// abouts returns a line for each thing that was found, with the nodes where it was.
func (s *sameFinding) abouts() (lines []string) {
	for _, what := range s.whats {
		if nodes := s.nodes[what]; len(nodes) > 0 {
			what = strings.Join(nodes, ", ") + ": " + what
		}
		lines = append(lines, what)
	}
	return lines
}

func (x *examination) verdict(p paint) string {
	n := len(x.Nodes)
	fit := 0
	for _, f := range x.Nodes {
		if x.fit(f) {
			fit++
		}
	}
	text := fmt.Sprintf("%d of %d nodes are fit, %d must be; %d more may fail.", fit, n, x.Quorum, max(fit-x.Quorum, 0))
	d := 0
	for _, f := range alike(x.Findings) {
		if f.Severity == danger {
			d++
		}
	}
	if d > 0 {
		return p.red(counted(d, "danger")+".") + " " + text
	}
	return p.green("No danger.") + " " + text
}

// counted is overview.Counted.
func counted(n int, thing string) string { return overview.Counted(n, thing) }

func (f *nodeFacts) row() []string {
	if f.err != nil {
		return []string{f.Node, "? " + f.Error}
	}
	trip := printable.Duration(millisec(f.Trip.Median))
	clock := "?"
	if f.Clock.Known {
		clock = fmt.Sprintf("%+.1f ms, %+.0f ppm (± %.0f)", f.Clock.Offset, f.Clock.Drift, f.Clock.Uncertainty)
	}
	persistence := "rdb " + f.RDB + ", aof " + f.AOF
	votes := map[string]string{"votes": "yes", "waits": fmt.Sprintf("in %.0f s", f.Admitted.Left), "new": "not yet",
		"damaged": "no (damaged)", "other list": "no (other list)", "unknown": "?"}[f.Admitted.State]
	up := "?"
	if f.info["uptime_in_seconds"] != "" {
		up = printable.Age(time.Duration(f.Uptime) * time.Second)
	}
	return []string{f.Node, trip, f.Server.String(), orUnknown(f.Role), up, votes, persistence, orUnknown(f.Eviction),
		clock}
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}
