package main

import (
	"fmt"
	"io"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
)

// mostReaders is how many readers of a lock a node shows at most.
const mostReaders = overview.MostReaders

// readerView is a reader in JSON.
type readerView struct {
	Owner     string    `json:"owner"`
	Label     string    `json:"label"`
	Since     time.Time `json:"since,omitzero"`
	Remaining int64     `json:"remaining_ms"`
	Nodes     int       `json:"nodes,omitempty"` // that have its share; 0 among the readers of one node
}

func newReaderViews(readers []redlock.ShareStatus) []readerView {
	views := []readerView{}
	for _, r := range readers {
		views = append(views, readerView{Owner: r.Owner, Label: r.Label, Since: r.Since,
			Remaining: millis(r.Remaining), Nodes: r.Nodes})
	}
	return views
}

// newNodeReaderViews is newReaderViews for the readers of one node.
func newNodeReaderViews(readers []redlock.ShareStatus) []readerView {
	views := newReaderViews(readers)
	for i := range views {
		views[i].Nodes = 0
	}
	return views
}

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
