package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/redlockweb"
)

// watchHelp is the help of redlock watch, and a part of its manual.
const watchHelp = `watch --http ADDR serves a page that shows the locks, and prints its URL: whether locks are
available, which nodes do not vote, which callers wait for whom, what looks odd, and all locks with a filter. The page
updates live, and is readable without script. Beside it there are /api/locks (docs/reference/json.md) and
/api/nodes, both JSON, /healthz (200 if a quorum votes, else 503) and /metrics (gauges for Prometheus).

ADDR is a host and a port, such as localhost:8080. It must be a loopback address, unless --beyond-loopback says
that other machines may see the page: it asks for no password, and shows the names of all
locks and their holders. A request whose Host is neither a loopback name, nor the address at which it
arrived, nor given by --host is refused.

The page is read-only. With --unlock it can take a lock away from its holder, as redlock unlock --force does, when
a person types the lock's name. If another holder has got the lock meanwhile, nothing is changed.

watch --log prints one JSON object for each change that it sees, on a line of its own; docs/reference/json.md has
its fields. It misses what comes and goes between two looks: it
looks at the first 200 locks each second, and at the others as often as it lists them. Without a quorum it prints
changes of nodes alone.

watch NAME --log prints who holds this one lock, and each change of its holder: the lines of redlock observe NAME, whose
help describes them. It asks for this lock alone, and lists none.

Without --unlock, watch changes nothing. Without a NAME it needs the right +scan, as ls does, and spends at most a quarter
of its time on listing locks, however many browsers watch; none while no browser does, but for some
seconds after a request. It ends with 0 when a signal ends it.`

// watchFlags are the flags of redlock watch.
type watchFlags struct {
	http   string
	log    bool
	beyond bool
	unlock bool
	hosts  []string
	title  string
}

func newWatch(s *settings) *cobra.Command {
	f := &watchFlags{}
	cmd := &cobra.Command{
		Use:   "watch --http ADDR | [NAME] --log",
		Short: "Show the locks on a page, or print each change",
		Long:  watchHelp,
		Example: `  redlock watch --http localhost:8080
  redlock watch --http 10.0.0.9:8080 --beyond-loopback --host locks.example.com
  redlock watch --log | jq -r 'select(.change == "holder changed") | "\(.name): \(.holder)"'
  redlock watch leader --log`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (f.http != "") == f.log:
				return usage("give either --http ADDR or --log")
			case f.http != "" && len(args) > 0:
				return usage("watch --http takes no name: its page shows all locks; for one lock write redlock watch NAME --log")
			case len(args) > 0:
				return printHolders(cmd, s, args[0])
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
			defer stop()
			if f.log {
				return f.printChanges(ctx, cmd, s)
			}
			return f.servePage(ctx, cmd, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve the page at this `address`, host:port")
	flags.BoolVar(&f.log, "log", false, "print one JSON object for each change, of all locks or of NAME, on a line of its own")
	flags.BoolVar(&f.beyond, "beyond-loopback", false, "serve other machines too: the page asks for no password")
	flags.BoolVar(&f.unlock, "unlock", false, "let the page take locks away from their holders")
	flags.StringArrayVar(&f.hosts, "host", nil,
		"a `name` by which browsers reach the page, beside loopback names and the address; may be repeated")
	flags.StringVar(&f.title, "title", "", "the cluster's name, in the page's head")
	return cmd
}

// maxFarewell bounds how long requests under way may take when a signal ends the server.
const maxFarewell = 5 * time.Second

// servePage serves the page until ctx ends.
func (f *watchFlags) servePage(ctx context.Context, cmd *cobra.Command, s *settings) error {
	if err := f.checkAddress(); err != nil {
		return err
	}
	trips := &redlockweb.RoundTrips{}
	client, err := s.openReader(cmd, redlock.WithTrace(&redlock.Trace{BallotVote: trips.BallotVote}))
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := net.Listen("tcp", f.http)
	if err != nil {
		return &exit{code: codeConfig, why: err}
	}
	opts := []redlockweb.Option{redlockweb.WithTitle(f.title), redlockweb.WithHosts(f.hosts...),
		redlockweb.WithRoundTrips(trips)}
	if f.unlock {
		opts = append(opts, redlockweb.WithUnlock())
	}
	page := redlockweb.New(client, opts...)
	defer page.Close()
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return &exit{code: codeDanger, why: err}
	case <-ctx.Done():
	}
	page.Close() // its streams would hold up the server
	bounded, cancel := context.WithTimeout(context.Background(), maxFarewell)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}

// checkAddress refuses an address that other machines reach, unless a flag allows it.
func (f *watchFlags) checkAddress() error {
	addr, err := net.ResolveTCPAddr("tcp", f.http)
	switch {
	case err != nil:
		return usage("--http: %w", err)
	case !f.beyond && !addr.IP.IsLoopback():
		return usage("--http %s: other machines reach this address, and the page asks for no password: "+
			"give a loopback address such as localhost:%d, or add --beyond-loopback", f.http, addr.Port)
	}
	return nil
}

// printChanges prints what changes until ctx ends.
func (f *watchFlags) printChanges(ctx context.Context, cmd *cobra.Command, s *settings) error {
	client, err := s.openReader(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	model, stop := overview.Start(client, overview.Options{})
	defer stop()
	w := model.Watch(overview.View{All: true})
	defer w.Close()
	log := changeLog{out: cmd.OutOrStdout()}
	for {
		select {
		case seen := <-w.Updates():
			if err := log.write(seen); err != nil {
				return &exit{code: codeDanger, why: err}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// changeLog prints what changes from one snapshot to the next.
type changeLog struct {
	out  io.Writer
	last *overview.Snapshot // of the nodes
	full *overview.Snapshot // the last one that is not stale: of the locks
}

func (l *changeLog) write(s *overview.Snapshot) error {
	if !s.IsWhole() {
		return nil
	}
	var all []overview.Change
	for _, c := range l.since(l.last, s) {
		if c.Node != "" {
			all = append(all, c)
		}
	}
	for _, c := range l.since(l.full, s) {
		if c.Node == "" {
			all = append(all, c)
		}
	}
	l.last = s
	if !s.Stale {
		l.full = s
	}
	for i := range all {
		if err := writeJSON(l.out, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// since returns the changes from one snapshot to another; none from the first one.
func (l *changeLog) since(before, after *overview.Snapshot) []overview.Change {
	if before == nil {
		return nil
	}
	return overview.Changes(before, after)
}

// writeJSON prints a value on a line. It escapes what JSON leaves as it is, and a terminal would
// obey: names are text of other clients.
func writeJSON(w io.Writer, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(line) {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return err
}
