package main

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
)

// outerEnv has the locks of all runs around a command: for each its owner and its name, escaped, on a
// line.
const outerEnv = "REDLOCK_OUTER"

// withOuter returns the value of outerEnv for a command under more locks.
func withOuter(owner string, names []string) string {
	var lines []string
	if given := os.Getenv(outerEnv); given != "" {
		lines = append(lines, given)
	}
	for _, name := range names {
		lines = append(lines, url.QueryEscape(owner)+" "+url.QueryEscape(name))
	}
	return strings.Join(lines, "\n")
}

// outerOwners returns the owners of the runs around redlock that took a lock of a name.
func outerOwners(name string) (owners []string) {
	for line := range strings.SplitSeq(os.Getenv(outerEnv), "\n") {
		owner, of, _ := strings.Cut(line, " ")
		if of == url.QueryEscape(name) {
			if owner, err := url.QueryUnescape(owner); err == nil {
				owners = append(owners, owner)
			}
		}
	}
	return owners
}

// notNested returns an error if a run around redlock holds one of the locks, or a share of it: this
// run would wait for itself. A second share would be granted at once, but not while a writer waits for
// the first. Of a semaphore it may have permits, unless too few are left.
func (f *runFlags) notNested(ctx context.Context, client *redlock.Client, names []string) error {
	for _, name := range names {
		owners := outerOwners(name)
		if len(owners) == 0 {
			continue
		}
		s, err := client.Inspect(ctx, name)
		if err == nil && f.wouldWaitFor(s, owners) {
			return usage("this command already runs under the lock %q: it would wait for itself", name)
		}
	}
	return nil
}

// wouldWaitFor reports whether the run waits for the end of one of the owners.
func (f *runFlags) wouldWaitFor(s redlock.Status, owners []string) bool {
	if f.permits > 0 {
		return f.hasTooMany(s, owners)
	}
	return slices.Contains(owners, s.Holder) && !s.Resting ||
		slices.ContainsFunc(overview.HoldingReaders(s),
			func(r redlock.ShareStatus) bool { return slices.Contains(owners, r.Owner) })
}
