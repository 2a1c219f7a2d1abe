package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// mostReaders is how many readers of a lock a node shows at most.
const mostReaders = 100

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

// holdingReaders returns the readers that hold the lock: a majority of the nodes has the share
// of each of them. There are none while one owner holds the lock alone.
func holdingReaders(s redlock.Status) []redlock.ShareStatus {
	if s.Holder != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Readers), func(r redlock.ShareStatus) bool { return r.Remaining <= 0 })
}

// hasShares reports whether the lock's key at the node is the readers'. The node may show none of
// them: their shares may be gone before the key is.
func hasShares(n *redlock.NodeStatus) bool {
	return n.Holder == "" && n.Reserved == "" && n.Remaining != 0
}

// heldSince returns since when the lock is held: by its holder, or by the first of the readers that hold it;
// zero if no holder's clock says it.
func heldSince(s redlock.Status) (since time.Time) {
	since = s.Since
	for _, r := range holdingReaders(s) {
		if since.IsZero() || !r.Since.IsZero() && r.Since.Before(since) {
			since = r.Since
		}
	}
	return since
}

// countReaders returns the number of the readers that hold the lock. If a node shows as many as
// it can, there may be more.
func countReaders(s redlock.Status) string {
	text := counted(len(holdingReaders(s)), "reader")
	if slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return len(n.Readers) >= mostReaders }) {
		text = "at least " + text
	}
	return text
}

// writeReaders prints each reader, whether it holds the lock or not.
func writeReaders(w io.Writer, readers []redlock.ShareStatus) {
	for i, r := range readers {
		if i == 0 {
			fmt.Fprintf(w, "  readers: %d\n", len(readers))
		}
		share, held := "no majority has its share", ""
		if r.Remaining > 0 {
			held = heldFor(r.Since)
			share = "for another " + left(r.Remaining) + " unless renewed"
		}
		fmt.Fprintf(w, "  %4d. %s%s, at %s, %s\n", i+1, ownerCell(r.Owner), held,
			counted(r.Nodes, "node"), share)
	}
}
