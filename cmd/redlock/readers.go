package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/redlock-go/redlock"
)

// mostReaders is how many readers of a lock a node shows at most.
const mostReaders = 100

// readerView is a reader in JSON.
type readerView struct {
	Owner     string `json:"owner"`
	Label     string `json:"label"`
	Remaining int64  `json:"remaining_ms"`
	Nodes     int    `json:"nodes,omitempty"` // that have its share; 0 among the readers of one node
}

func newReaderViews(readers []redlock.Reader) []readerView {
	views := []readerView{}
	for _, r := range readers {
		views = append(views, readerView{Owner: r.Owner, Label: r.Label, Remaining: millis(r.Remaining), Nodes: r.Nodes})
	}
	return views
}

// newNodeReaderViews is newReaderViews for the readers of one node.
func newNodeReaderViews(readers []redlock.Reader) []readerView {
	views := newReaderViews(readers)
	for i := range views {
		views[i].Nodes = 0
	}
	return views
}

// holdingReaders returns the readers that hold the lock: a majority of the nodes has the share
// of each of them. There are none while one owner holds the lock alone.
func holdingReaders(s redlock.Status) []redlock.Reader {
	if s.Holder != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Readers), func(r redlock.Reader) bool { return r.Remaining <= 0 })
}

// hasShares reports whether the lock's key at the node is the readers'. The node may show none of
// them: their shares may be gone before the key is.
func hasShares(n *redlock.NodeStatus) bool {
	return n.Holder == "" && n.Reserved == "" && n.Remaining != 0
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
func writeReaders(w io.Writer, readers []redlock.Reader) {
	for i, r := range readers {
		if i == 0 {
			fmt.Fprintf(w, "  readers: %d\n", len(readers))
		}
		share := "no majority has its share"
		if r.Remaining > 0 {
			share = "for another " + left(r.Remaining) + " unless renewed"
		}
		fmt.Fprintf(w, "  %4d. %s, at %s, %s\n", i+1, ownerCell(r.Owner),
			counted(r.Nodes, "node"), share)
	}
}
