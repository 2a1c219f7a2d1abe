package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

// inspectHelp is the help of redlock inspect, and a part of its manual.
const inspectHelp = `inspect shows, for each lock: the holder, which is the owner that has the key at a
majority of the nodes, or the readers that hold it together; for how long they hold it, by the clock of
the machine of each and this machine's; how long the lock lasts unless it is renewed; the fencing counter,
which no lease has exceeded yet; its state at each node; and the wait queue. Votes are split if several
owners have nodes and none has a majority. A node shows the hundred readers that hold the lock for
longest. Owners and labels are text of other clients: if it is not printable, it is quoted and escaped.
A key without any value is held by "(an empty value)". A lock that rests has the last holder's owner:
its lease has ended, and its minimum hold has not.

Of a semaphore it shows the permits that are held: slot, holder, and the slot's fencing
counter. Nothing at the nodes says how many permits there are: each caller says it, and all should say the
same. inspect shows what those that wait say, and warns if they differ. A slot that is not below
your number is of a program with a greater one. A mutex of the same name is
another lock: inspect shows both, the mutex first and then the permits. Slot k is the lock with the
semaphore's name, # and k.

It changes nothing about the locks. The output is a snapshot, which may be out of date
already. It exits with 0 also if nobody holds the lock, and with 69 if fewer nodes than a
majority answer.

With --json there is one object for each lock, on a line of its own. docs/reference/json.md has the
fields, which are stable.`

func newInspect(s *settings) *cobra.Command {
	var watch, asJSON bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "inspect NAME...",
		Short: "Show a lock's holder, readers or permits, its wait queue, and its state at each node",
		Long:  inspectHelp,
		Example: `  redlock inspect backup
  redlock inspect backup deploy --watch
  redlock inspect backup --json | jq -r '.holders[].holder'
  redlock inspect deployments --json | jq -r '.holders[] | "\(.slots) \(.holder)"'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if every < 100*time.Millisecond {
				return usage("--every %v: it must be at least 100ms", every)
			}
			for _, name := range names { // one may be given twice
				if err := checkNames([]string{name}); err != nil {
					return err
				}
			}
			s.showsNodes = !asJSON
			client, err := s.openReader(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			look := func(ctx context.Context, w io.Writer) error {
				p := newPaint(cmd.OutOrStdout())
				if watch && !asJSON {
					fmt.Fprintf(w, "%s\n\n", p.dim(time.Now().Format(time.DateTime)))
				}
				return inspectAll(ctx, w, p, client, names, asJSON)
			}
			if watch {
				return repeat(cmd, every, look)
			}
			return look(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&every, "every", time.Second, "interval of --watch")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each lock, on a line of its own")
	return cmd
}

// inspectAll shows every lock. Of several errors it returns the first.
func inspectAll(ctx context.Context, w io.Writer, p paint, client *redlock.Client, names []string, asJSON bool) error {
	var first error
	for i, name := range names {
		s, err := client.Inspect(ctx, name)
		if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			return coded(err)
		}
		switch {
		case asJSON:
			_ = writeLocks(w, client, &s) // output keeps the error
		default:
			if i > 0 {
				fmt.Fprintln(w)
			}
			writeLock(w, p, s)
		}
		if first == nil && err != nil {
			first = &exit{code: codeNoQuorum, why: fmt.Errorf("inspect %q: fewer nodes than a majority answer", name)}
		}
	}
	if !asJSON {
		writeUnfit(w, p, client.Stats().Nodes)
	}
	return first
}

// writeUnfit prints which nodes answer and do not vote, and why: such a node looks empty.
func writeUnfit(w io.Writer, p paint, nodes []redlock.NodeStats) {
	for _, n := range nodes {
		if n.State == "quarantined" || n.State == "refusing" || n.State == "unfit" {
			fmt.Fprintf(w, "%s\n", p.yellow(printable.Line(fmt.Sprintf("%s: %v", n.Node, n.Err))))
		}
	}
}

// repeat calls look until Ctrl-C. On a terminal each output replaces the one before, on a
// screen of its own; elsewhere they follow each other.
func repeat(cmd *cobra.Command, every time.Duration, look func(context.Context, io.Writer) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
	defer stop()
	out := cmd.OutOrStdout()
	screen := isTerminal(out)
	if screen {
		fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
		defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var page bytes.Buffer
		err := look(ctx, &page)
		if ctx.Err() != nil {
			return nil
		}
		if end := (*exit)(nil); errors.As(err, &end) && end.code != codeNoQuorum {
			return err
		}
		if screen {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if _, err := out.Write(page.Bytes()); err != nil {
			return &exit{code: codeDanger, why: err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// endSignals returns the signals that end a command that runs until it is interrupted.
func endSignals() []os.Signal {
	var ends []os.Signal
	for _, sig := range forwarded() {
		if asksToEnd(sig) {
			ends = append(ends, sig)
		}
	}
	return ends
}
