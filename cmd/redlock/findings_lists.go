package main

import (
	"fmt"
	"slices"
	"strings"
)

// The nodes keep the list of masters. The list in force is the one by which most of them vote. A node that is no master of it has
// no vote: a client that was given this node in the place of a master has one master less.

// findStrangers finds the list in force, and the nodes that are no masters of it: as clients do, by what the server says of
// itself or, where it stood in no list, by its address.
func (x *examination) findStrangers() {
	voting, most := make(map[string]int), 0
	for _, f := range x.Nodes {
		if f.Admitted.State == "votes" {
			voting[f.list]++
		}
	}
	for _, f := range x.Nodes {
		if n := voting[f.list]; f.list != "" && n > most {
			x.shows, most = f, n
		}
	}
	if x.shows == nil || len(x.Nodes) == 1 { // the only node is the master, whatever its name
		return
	}
	for _, f := range x.Nodes {
		isIn := f.list == x.shows.list || f.list == "" && slices.Contains(x.shows.Admitted.Masters, f.master)
		if f.err == nil && f.Admitted.State != "unknown" && !isIn {
			f.Admitted.State = "other list"
		}
	}
}

// judgeStranger reports a node that is no master of the list in force.
func (x *examination) judgeStranger(f *nodeFacts) {
	what := "it is no master of the list in force"
	if f.list != "" {
		what = "it is a master of another list, " + strings.Join(f.Admitted.Masters, " ") + ", than the one in force"
	}
	x.add(danger, "other-list", f.Node,
		fmt.Sprintf("%s: %s, by %s", what, strings.Join(x.shows.Admitted.Masters, " "), x.shows.Node),
		"it does not vote for clients of that list; clients with this list have one master less",
		"give every client the list in force; how to change it: docs/operations.md, Replacing a master")
}
