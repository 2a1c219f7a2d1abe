package main

import (
	"fmt"
	"io"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
)

// heldSince is overview.HeldSince.
func heldSince(s redlock.Status) time.Time { return overview.HeldSince(s) }

// countReaders is overview.CountReaders.
func countReaders(s redlock.Status) string { return overview.CountReaders(s) }

// writeReaders prints each reader, whether it holds the lock or not.
func writeReaders(w io.Writer, readers []redlock.ShareStatus) {
	for i, r := range readers {
		if i == 0 {
			fmt.Fprintf(w, "  readers: %d\n", len(readers))
		}
		share, held := "no majority has its share", ""
		if r.Remaining > 0 {
			held = heldFor(r.Since)
			share = unlessRenewed(r.Remaining)
		}
		fmt.Fprintf(w, "  %4d. %s%s, at %s, %s\n", i+1, ownerCell(r.Owner), held,
			counted(r.Nodes, "node"), share)
	}
}
