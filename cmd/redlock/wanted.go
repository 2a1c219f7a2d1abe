package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

func newAsk(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "ask NAME",
		Short: "Ask the holder of a lock to let it go",
		Long: `ask asks the holder of a lock to let it go, at all nodes, and prints the holder. It takes
nothing away, and does not wait: a program that holds the lock WithWanted learns of it at
once, or by its next renewal, and lets go when it can. Readers learn of it by their next
renewal. Other holders are not asked, and ask says so; redlock run is one of them. To wait until the lock is
free, run something under it: a caller that waits asks as well.

ask exits with 0 also if nobody holds the lock, or the holder cannot be asked, and with 69
if fewer nodes than a majority answer.`,
		Example: `  redlock ask reports`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNames(args); err != nil {
				return err
			}
			client, err := s.openReader(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			is, err := client.Inspect(cmd.Context(), args[0]) // before the holder lets go
			if err == nil {
				err = client.Ask(cmd.Context(), args[0])
			}
			if err == nil {
				printAsked(cmd.OutOrStdout(), is, s.verbose)
			}
			return coded(err)
		},
	}
}

// printAsked prints who was asked.
func printAsked(w io.Writer, is redlock.Status, verbose bool) {
	name, holder := printable.Quote(is.Name), namedOwner(is.Holder, verbose)
	switch {
	case is.Resting:
		fmt.Fprintf(w, "%s: nobody was asked. It rests after %s %s.\n", name, holder, remains(is.Remaining))
	case is.Notifiable:
		fmt.Fprintf(w, "%s: asked %s.\n", name, holder)
	case is.Holder != "":
		fmt.Fprintf(w,
			"%s: nobody was asked. It is held by %s %s, and that holder does not want to be told (WithWanted).\n", name,
			holder, unlessRenewed(is.Remaining))
	case len(overview.HoldingReaders(is)) > 0:
		fmt.Fprintf(w,
			"%s: asked those of %s that want to be told (WithWanted): they learn of it by their next renewal.\n", name,
			countReaders(is))
	default:
		fmt.Fprintf(w, "%s: nobody holds it.\n", name)
	}
}
