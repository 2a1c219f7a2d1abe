package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// lsHelp is the help of redlock ls, and a part of its manual.
const lsHelp = `ls lists the locks for which something stands at a majority of the nodes: the name, the
holder's label or the number of readers or permits, for how long they hold it, how long the lock lasts unless it is
renewed, how many callers wait, and a state. For how long is by the clock of the holder, or of the first reader, and
this machine's; - where another program wrote the key. The state is "held" (by one owner, by readers, or
as permits of a semaphore), "resting" (the holder's lease has ended, and its minimum hold has not),
"reserved" (free, and kept for a moment for the waiter whose turn it is), "waited for" (free, and
somebody waits for it), "split" (several owners have nodes, and none has a majority), or "incomplete"
(too few nodes answer to say more: the holder is that of most of those that do).

A semaphore shows if somebody waits for its permits; slots that are held show as locks: slot k has the name of
the semaphore, # and k. A mutex and a semaphore of one name show each.

PATTERN is for the name, without the prefix, as Redis's SCAN has it: * is any
text, ? any character, [a-z] one of several, and a backslash takes the meaning from the
next character. Quote PATTERN, so that the shell leaves it alone. Without PATTERN all locks are
listed. They come in no order, as they are found.

A lock that changes while ls runs may or may not show. Of more than
262144 locks some may show twice. Names and labels are text of other clients: if it is not
printable, it is quoted and escaped.

ls changes nothing. It needs the right +scan, which no other command needs, at a majority of
the nodes (of an even number, at half). It takes its time, so that each server
spends a tenth of its time on it at most: some minutes for a hundred thousand locks. It
exits with 0 also if nothing is locked, and with 69 if too few nodes answer or list their
keys, after it has shown what the others say.

With --json there is one object for each lock, on a line of its own, as inspect --json has it.`

func newLs(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held or waited for",
		Long:  lsHelp,
		Example: `  redlock ls
  redlock ls 'invoice-*'
  redlock ls --json | jq -r 'select(.waiters | length > 10) | .name'
  redlock ls --json | jq -r 'select(.state == "waited for") | .name'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(args, "list")
			if err != nil {
				return err
			}
			client, err := s.openReader(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			out := cmd.OutOrStdout()
			if asJSON {
				return listLocks(cmd.Context(), client, pattern, func(s redlock.Status) error {
					return writeLocks(out, client, &s)
				})
			}
			rows := newRowWriter(out, newPaint(out))
			return listLocks(cmd.Context(), client, pattern, rows.write)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each lock, on a line of its own")
	return cmd
}

// patternOf returns the pattern that the arguments of a command are; verb is what the command does with locks.
func patternOf(args []string, verb string) (string, error) {
	if len(args) == 0 {
		return "*", nil
	}
	if args[0] == "" {
		return "", usage("the pattern is empty: give none to %s all locks", verb)
	}
	return args[0], nil
}

// listLocks writes each lock as it is found.
func listLocks(ctx context.Context, client *redlock.Client, pattern string, write func(redlock.Status) error) error {
	for s, err := range client.Locks(ctx, pattern) {
		if err != nil {
			return coded(err)
		}
		if err := write(s); err != nil {
			return &exit{code: codeDanger, why: err}
		}
	}
	return nil
}

// rowWriter prints locks as rows of a table, each at once: there may be too many to keep. A column
// is as wide as its widest cell so far.
type rowWriter struct {
	w     io.Writer
	paint paint
	width []int
}

func newRowWriter(w io.Writer, p paint) *rowWriter { return &rowWriter{w: w, paint: p} }

// write prints one lock, and the heading before the first.
func (r *rowWriter) write(s redlock.Status) error {
	if r.width == nil {
		r.width = []int{30, 24, 8, 10, 7}
		if _, err := fmt.Fprintln(r.w,
			r.paint.dim(r.line("NAME", "HOLDER", "HELD FOR", "REMAINING", "WAITERS", "STATE"))); err != nil {
			return err
		}
	}
	v := newRow(s)
	line := r.line(printable.Quote(s.Name), v.holder, age(heldSince(s)), v.remaining, fmt.Sprint(len(s.Queue)), v.state)
	_, err := fmt.Fprintln(r.w, line)
	return err
}

// row is what a row shows of a lock beside its name and its waiters.
type row struct{ holder, remaining, state string }

func newRow(s redlock.Status) row {
	state := overview.StateOf(s)
	v := row{cmp.Or(overview.HeldBy(s, state), "-"), "-", string(state)}
	switch {
	case state == overview.Incomplete:
		if lasts := overview.LastsAtMost(s); lasts != 0 {
			v.remaining = left(lasts)
		}
	case state == overview.Free: // its waiters have left
		v.state = string(overview.WaitedFor)
	case s.Holder != "" || len(overview.HoldingReaders(s)) > 0: // each permit has a time of its own
		v.remaining = left(s.Remaining)
	}
	return v
}

// line aligns the cells of a row.
func (r *rowWriter) line(cells ...string) string {
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell)
		if i < len(r.width) {
			length := utf8.RuneCountInString(cell)
			r.width[i] = max(r.width[i], length)
			line.WriteString(strings.Repeat(" ", r.width[i]-length+2))
		}
	}
	return line.String()
}
