package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

func newUnlock(s *settings) *cobra.Command {
	var force, permits bool
	cmd := &cobra.Command{
		Use:   "unlock --force NAME",
		Short: "Take a lock away from its holder",
		Long: `unlock --force takes a lock away from its holder, at a majority of the nodes, raises
the fencing counter above the holder's token, and prints the holder. From readers it takes
the lock all at once, and prints how many they were, and each of them. The first waiter
gets the lock next. A lock that rests (redlock run --min-hold) becomes free.

A permit of a semaphore is a lock with the semaphore's name, # and the slot's number: quote it, as
'deployments#2'. Its holder loses all permits that it has taken together. With --permits, unlock
takes all permits of the semaphore NAME from their holders.

If nobody holds the lock, or the permits, unlock changes nothing, and exits with 66.

The holder is not asked, and may be at work: it learns of the loss when it renews the
next time, within a third of its ttl, and redlock run stops its command then. Until
then two may work at the same time. A resource that compares fencing tokens refuses the
old holder once it has seen a greater token: the next holder's, or the one that this
command prints. So look first (redlock inspect NAME), and break only locks of holders
that you know to be dead: those locks also end by themselves, with their ttl.`,
		Example: `  redlock unlock --force backup
  redlock unlock --force 'deployments#2'           # one permit: that of slot 2
  redlock unlock --force --permits deployments     # all permits`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return usage("this takes the lock away from its holder: add --force if you mean it")
			}
			if err := checkNames(args); err != nil {
				return err
			}
			client, err := s.open(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if permits {
				return breakPermits(cmd.Context(), cmd.OutOrStdout(), client, args[0], s.verbose)
			}
			if err := isToBreak(client.Inspect(cmd.Context(), args[0])); err != nil {
				return err
			}
			was, err := client.ForceUnlock(cmd.Context(), args[0])
			if isBroken(err) {
				printBroken(cmd.OutOrStdout(), was, s.verbose)
			}
			return coded(err)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "break the lock: required")
	cmd.Flags().BoolVar(&permits, "permits", false, "NAME is a semaphore: break all its permits")
	return cmd
}

// isToBreak returns why unlock leaves a lock as it is; err is what Inspect returned with s. If too few nodes answer,
// or a node has something that is no lock, ForceUnlock finds out what can be done.
func isToBreak(s redlock.Status, err error) error {
	isForeign := func(n redlock.NodeStatus) bool {
		refusal := redis.Error("")
		return errors.As(n.Err, &refusal)
	}
	switch held := overview.HeldPermits(s); {
	case err != nil || s.Holder != "" || overview.NodesWithKey(s) > 0 || slices.ContainsFunc(s.Nodes, isForeign):
		return nil
	case len(held) > 0:
		return usage("%q is a semaphore, of which %s held: add --permits to break all of them, or break one, as "+
			"'%s#%d'; nothing was changed",
			s.Name, are(len(held), "permit"), printable.Quote(s.Name), held[0].Slot)
	}
	return &exit{code: codeFree, why: fmt.Errorf("nobody holds the lock %q: nothing was changed", s.Name)}
}

// are returns a number with a noun and its verb.
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return fmt.Sprintf("%d %ss are", n, thing)
}

// isBroken reports whether a lock was broken, and is perhaps not free yet, where ForceUnlock has
// returned this error.
func isBroken(err error) bool {
	var votes *redlock.QuorumError
	return err == nil || errors.As(err, &votes) && votes.Op == "unlock"
}

// printBroken prints the lock's state before it was broken.
func printBroken(w io.Writer, was redlock.Status, verbose bool) {
	name, holder := printable.Quote(was.Name), namedOwner(was.Holder, verbose)
	switch {
	case was.Resting:
		fmt.Fprintf(w, "%s: broken. It rested after %s %s.\n", name, holder, remains(was.Remaining))
	case was.Holder != "":
		fmt.Fprintf(w, "%s: broken. It was held by %s %s.\n", name, holder, remains(was.Remaining))
	case len(overview.HoldingReaders(was)) > 0:
		fmt.Fprintf(w, "%s: broken. It was held by %s %s.\n", name, countReaders(was), remains(was.Remaining))
		writeReaders(w, was.Readers)
	case overview.IsSplit(was):
		fmt.Fprintf(w, "%s: nobody held it; the keys at %s are deleted.\n", name,
			counted(overview.NodesWithKey(was), "node"))
	default:
		fmt.Fprintf(w, "%s: nobody held it.\n", name)
	}
	fmt.Fprintf(w, "The token %d is greater than that of every earlier holder, and less than those of later ones: a "+
		"resource that has seen it refuses the earlier holders.\n", was.Token)
}
