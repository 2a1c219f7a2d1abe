package main

import (
	"fmt"
	"slices"
	"strings"
)

// The nodes keep the list of masters themselves. A node of another list than the others, or of none, has no vote: clients that
// were given it in the place of a master of the list in force have one master less.

// inForce returns the node that shows the list in force: the one by which most of the nodes vote. It returns nil if none votes.
func (x *examination) inForce() (shows *nodeFacts) {
	most := 0
	for _, f := range x.Nodes {
		standing := 0
		for _, other := range x.Nodes {
			if other.Admitted.State == "votes" && other.list == f.list {
				standing++
			}
		}
		if f.list != "" && standing > most {
			shows, most = f, standing
		}
	}
	return shows
}

// findStrangers finds the nodes that are no masters of the list in force: as clients do, by what the server says of itself or,
// where it stood in no list, by its address.
func (x *examination) findStrangers() {
	shows := x.inForce()
	if shows == nil {
		return
	}
	masters := shows.Admitted.Masters
	for _, f := range x.Nodes {
		isIn := f.list == shows.list || f.list == "" && slices.Contains(masters, f.master)
		if f.infoErr == nil && f.err == nil && f.Admitted.State != "unknown" && len(x.Nodes) > 1 && !isIn {
			f.Admitted.State = "other list"
		}
	}
}

// judgeStranger reports a node that is no master of the list in force.
func (x *examination) judgeStranger(f *nodeFacts) {
	shows := x.inForce()
	what := "it is no master of the list in force"
	if f.list != "" {
		what = "it is a master of another list, " + strings.Join(f.Admitted.Masters, " ") + ", than the one in force"
	}
	x.add(danger, "other-list", f.Node,
		fmt.Sprintf("%s: %s, by %s", what, strings.Join(shows.Admitted.Masters, " "), shows.Node),
		"it does not vote for clients of that list; clients with this list have one master less",
		"give every client the list in force; how to change it: docs/operations.md, Replacing a master")
}
