package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

func newLs(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held",
		Long: `ls lists the locks that are held at a majority of the nodes: the name, the holder's
label or the number of readers, how long the lock lasts unless it is renewed, and how many
callers wait. A lock rests if its lease has ended and its minimum hold is not over. PATTERN is for the name, without the prefix, as Redis's SCAN has it: * is any
text, ? any character, [a-z] one of several, and a backslash takes the meaning from the
next character. Slot k of a semaphore has the name of the semaphore, # and k;
its waiters are shown by inspect, with the semaphore's name. Quote PATTERN, so that the shell leaves it alone. Without PATTERN all locks are
listed. They come in no order, as they are found.

A lock that is acquired or released while ls runs may or may not show. Of more than
262144 locks some may show twice. Names and labels are text of other clients: if it is not
printable, it is quoted and escaped.

ls changes nothing. It needs the right +scan, which no other command needs, at a majority of
the nodes (of an even number, at half). It takes its time, so that each server
spends a tenth of its time on it at most: some minutes for a hundred thousand locks. It
exits with 0 also if nothing is locked, and with 69 if too few nodes answer or list their
keys; what it has printed until then is right.

With --json there is one object for each lock, on a line of its own, with the fields of
inspect --json.`,
		Example: `  redlock ls
  redlock ls 'invoice-*'
  redlock ls --json | jq -r 'select(.queue | length > 10) | .name'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) > 0 {
				pattern = args[0]
			}
			if pattern == "" {
				return usage("the pattern is empty: give none to list all locks")
			}
			client, err := s.open(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			out := cmd.OutOrStdout()
			if asJSON {
				return listLocks(cmd.Context(), client, pattern, func(s redlock.Status) error {
					return json.NewEncoder(out).Encode(newLockView(s, true))
				})
			}
			rows := newRowWriter(out, newPaint(out))
			return listLocks(cmd.Context(), client, pattern, rows.write)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each lock, on a line of its own")
	return cmd
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
		r.width = []int{30, 24, 10}
		if _, err := fmt.Fprintln(r.w, r.paint.dim(r.line("NAME", "HOLDER", "REMAINING", "WAITERS"))); err != nil {
			return err
		}
	}
	holder := countReaders(s)
	if s.Holder != "" {
		holder = printable.Quote(readableOwner(s.Holder))
	}
	if s.Resting {
		holder += " (rests)"
	}
	_, err := fmt.Fprintln(r.w, r.line(printable.Quote(s.Name), holder, left(s.Remaining), fmt.Sprint(len(s.Queue))))
	return err
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
