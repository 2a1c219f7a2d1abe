package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/printable"
)

func newBench(s *settings) *cobra.Command {
	var ttl, window, pause time.Duration
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "A short latency profile of your nodes",
		Long: `bench locks and unlocks one random name, again and again, and shows how long that took,
and each node's round trip meanwhile. It is gentle: one lock at a time, with a pause
between. It writes keys of that name, and removes them; the fencing counter that this
name shares with others grows by as many as there were rounds.

New nodes do not vote at once: bench waits for them before it measures. It ends with 69 when
too few nodes answer.`,
		Example: `  redlock bench
  redlock bench --for 10s --pause 0s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window <= 0 || pause < 0 {
				return usage("--for must be above 0, and --pause not below")
			}
			if ttl <= 0 {
				return usage("--ttl %v: it must be above 0", ttl)
			}
			urls, err := s.urls()
			if err != nil {
				return err
			}
			client, err := s.open(cmd, redlock.WithTTL(ttl))
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
			defer stop()
			b := &bench{name: "bench-" + rand.Text(), client: client, window: window, pause: pause}
			fmt.Fprintf(cmd.ErrOrStderr(), "Writing and removing keys of the lock %q for %v …\n", b.name, window)
			nodes, err := b.run(ctx, urls)
			if err != nil {
				return coded(err)
			}
			b.write(cmd.OutOrStdout(), newPaint(cmd.OutOrStdout()), nodes)
			if b.noQuorum {
				return &exit{code: codeNoQuorum} // what failed is written
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&ttl, "ttl", 10*time.Second, "the locks' ttl: the node timeout follows from it")
	flags.DurationVar(&window, "for", 3*time.Second, "how long to measure")
	flags.DurationVar(&pause, "pause", 5*time.Millisecond, "time between two rounds")
	return cmd
}

// quorumPatience is how long bench waits for a quorum that no quarantine delays.
const quorumPatience = 5 * time.Second

// bench measures one client over all nodes.
type bench struct {
	name          string
	client        *redlock.Client
	window, pause time.Duration
	lock, unlock  []time.Duration
	failed        int
	lastFailure   error
	noQuorum      bool // it is why the last round failed
}

// awaitQuorum waits until a quorum votes. It returns an error after quorumPatience, unless nodes in quarantine will
// complete a quorum: for these it waits on.
func (b *bench) awaitQuorum(ctx context.Context) error {
	for {
		within, stop := context.WithTimeout(ctx, quorumPatience)
		err := b.client.WaitReady(within)
		stop()
		if err == nil || ctx.Err() != nil || !b.comesSoon() {
			return err
		}
	}
}

// comesSoon reports whether the nodes that vote, and those in quarantine, are a quorum.
func (b *bench) comesSoon() bool {
	nodes, able := b.client.Stats().Nodes, 0
	for _, n := range nodes {
		var quarantine *admission.QuarantineError
		if n.State == "up" || errors.As(n.Err, &quarantine) {
			able++
		}
	}
	return able > len(nodes)/2
}

// run measures until the window is over, or ctx ends. The first round is not counted.
func (b *bench) run(ctx context.Context, urls []string) ([]*nodeFacts, error) {
	if err := b.awaitQuorum(ctx); err != nil {
		return nil, err
	}
	first, stop := context.WithTimeout(ctx, quorumPatience)
	defer stop()
	if err := b.round(first); err != nil {
		return nil, err
	}
	b.lock, b.unlock = nil, nil
	var nodes []*nodeFacts
	var beside sync.WaitGroup
	beside.Go(func() { nodes = examineAll(ctx, urls, look{timeout: 2 * time.Second, window: b.window}) })
	ends := time.Now().Add(b.window)
	within, over := context.WithDeadline(ctx, ends.Add(quorumPatience)) // for a round that meets no quorum
	defer over()
	for ; time.Now().Before(ends) && ctx.Err() == nil; time.Sleep(b.pause) {
		err := b.round(within)
		if ctx.Err() != nil {
			break
		}
		if b.noQuorum = errors.Is(err, redlock.ErrNoQuorum); err != nil {
			b.failed, b.lastFailure = b.failed+1, err
		}
	}
	beside.Wait()
	return nodes, nil
}

// round locks and unlocks once.
func (b *bench) round(ctx context.Context) error {
	begun := time.Now()
	lease, err := b.client.Mutex(b.name).Lock(ctx)
	if err != nil {
		return err
	}
	locked := time.Now()
	if err := lease.Unlock(ctx); err != nil {
		return err
	}
	b.lock = append(b.lock, locked.Sub(begun))
	b.unlock = append(b.unlock, time.Since(locked))
	return nil
}

func (b *bench) write(w io.Writer, p paint, nodes []*nodeFacts) {
	if len(b.lock) == 0 {
		fmt.Fprintf(w, "No round succeeded: %s\n", printable.Line(fmt.Sprint(b.lastFailure)))
		return
	}
	rows := [][]string{{"", "COUNT", "MIN", "P50", "P90", "P99", "MAX"}, profile("Lock", b.lock),
		profile("Unlock", b.unlock)}
	for _, f := range nodes {
		if f.err != nil {
			rows = append(rows, []string{f.Node, "? " + f.Error})
			continue
		}
		trips := make([]time.Duration, len(f.readings))
		for i, r := range f.readings {
			trips[i] = r.trip
		}
		rows = append(rows, profile(f.Node, trips))
	}
	writeTable(w, p, rows)
	if b.failed > 0 {
		fmt.Fprintf(w, "%s; the last one: %s\n", p.red(fmt.Sprintf("%d rounds failed", b.failed)),
			printable.Line(fmt.Sprint(b.lastFailure)))
	}
	fmt.Fprintf(w, "\nLock, %d rounds:\n", len(b.lock))
	writeHistogram(w, p, b.lock)
}
