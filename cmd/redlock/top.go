package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/cmd/redlock/internal/top"
	"github.com/redlock-go/redlock/internal/overview"
)

// topHelp is the help of redlock top, and a part of its manual.
const topHelp = `top shows the locks on the terminal, live, and answers in this order: are locks available,
and how many nodes may still fail; which nodes do not vote, since when, why, and what to do; and who
blocks whom. Locks that callers wait for come first, the longest wait first; then those to look at (split votes, no
ttl, running down, resting); then the rest.

The columns are the name, the holder's label or the number of readers or permits, since when it is held (by the
holder's clock), the time left (↻: the holder renews it, ↓: nobody does), what each node says, how many
callers wait, for how long the first of them, who that is or what is odd, and the end of the fencing token.
A narrow terminal shows fewer. Below a semaphore stand the holders of its permits. The names of one
owner show as one row. If too few nodes answer, the last list stays, with its age, and with what the
others say.

Keys: / filters by a part of a name or label, s sorts, Enter shows the details of a lock (each holder, each node's word,
the wait queue), u takes a lock away from its holder as unlock --force does, and only if you type its name in
full; ? is help, and q or Ctrl-C quits. Arrows, Page Up and Page Down move; Ctrl-Z stops top until fg.

PATTERN is for the name, as that of ls. Into a pipe or a file, and on a terminal with TERM=dumb, top prints all
rows once, and exits with 0, or with 69 if there is no quorum. A reader that closes the pipe, as head does,
is no failure.

top asks the nodes for the list of all locks for a quarter of the time at most, and for the locks that it
shows each second. It changes nothing but by the key u. It needs the rights of ls, with +scan; u needs those of unlock.`

func newTop(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Watch the locks on the terminal: are they available, and who blocks whom?",
		Long:  topHelp,
		Example: `  redlock top
  redlock top 'invoice-*'
  redlock top | head -20        # once, for a report`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(args, "see")
			if err != nil {
				return err
			}
			return watchTop(cmd, s, pattern)
		},
	}
}

// watchTop shows the locks on the terminal, or prints them if there is none that can show them.
func watchTop(cmd *cobra.Command, s *settings, pattern string) error {
	s.showsNodes = true
	trips := &overview.Trips{}
	opts := []redlock.ClientOption{redlock.WithTrace(&redlock.Trace{BallotVote: trips.Vote})}
	screen := newScreen(cmd.OutOrStdout())
	if screen != nil && isTerminal(cmd.ErrOrStderr()) {
		opts = append(opts, redlock.WithLogger(nil)) // the screen says it
	}
	client, err := s.openReader(cmd, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
	defer stop()
	about := overview.Options{Pattern: pattern, Trips: trips}
	if screen != nil {
		about.OnPanic = screen.Fini
	}
	m, stopModel := overview.Start(client, about)
	defer stopModel()
	if screen == nil {
		return printTop(ctx, cmd.OutOrStdout(), m)
	}
	b := breaker{client, s.verbose}
	return coded(top.Run(ctx, screen, m, top.Options{Unlock: b.unlock, Coloured: os.Getenv("NO_COLOR") == ""}))
}

// newScreen returns the terminal's screen; nil if the output is no terminal, or none that can be drawn on.
func newScreen(out io.Writer) tcell.Screen {
	if !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII) // in a locale of another character set than UTF-8
	if t, err := tcell.LookupTerminfo(os.Getenv("TERM")); err == nil {
		t.PadChar = "" // no pauses for slow hardware: they add up to seconds for each key
	}
	screen, err := tcell.NewScreen()
	if err != nil {
		return nil
	}
	return screen
}

// printTop prints the locks once.
func printTop(ctx context.Context, out io.Writer, m *overview.Model) error {
	s, err := m.Snapshot(ctx, overview.View{All: true})
	if err != nil {
		return coded(err)
	}
	if to, is := out.(*output); is {
		out = to.Writer // which does not keep the error of a reader that has seen enough
	}
	surviveBrokenPipe()
	if err := top.Print(out, s); err != nil && !errors.Is(err, syscall.EPIPE) {
		return &exit{code: codeDanger, why: fmt.Errorf("the output could not be written: %w", err)}
	}
	if s.Stale {
		return &exit{code: codeNoQuorum}
	}
	return nil
}

// breaker takes locks away for top.
type breaker struct {
	client  *redlock.Client
	verbose bool
}

// unlock is top.Options.Unlock.
func (b *breaker) unlock(ctx context.Context, name string, owners []string) (done string, err error) {
	s, err := b.client.Inspect(ctx, name)
	if refusal := isToBreak(s, err); refusal != nil {
		return "", refusal
	}
	switch has := overview.HasOwner(s, owners); {
	case !has && err != nil:
		return "", err
	case !has:
		return "", fmt.Errorf("%s: nothing was changed", overview.HolderNow(s))
	}
	was, err := b.client.ForceUnlock(ctx, name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	printBroken(&text, was, b.verbose)
	return strings.Join(strings.Fields(text.String()), " "), nil
}
