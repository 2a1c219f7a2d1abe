package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

// membersView is the list of masters in force, and the nodes that are none of them. The JSON names are stable.
type membersView struct {
	Masters []memberView   `json:"masters"`
	Others  []strangerView `json:"others"`
}

type memberView struct {
	Master string `json:"master"`
	Node   string `json:"node"`  // "" if it was not given
	State  string `json:"state"` // as redlock.NodeStats has it
}

type strangerView struct {
	Node  string `json:"node"`
	State string `json:"state"`
	Cause string `json:"cause"`
}

// membersHelp is the help of redlock members, and a part of its manual.
const membersHelp = `members shows the list of masters in force, as the nodes keep it: the one in which a majority of the
nodes that you give stands. A master that you do not give shows as such: give all clients all of them. A node that
is none of the masters is listed below, with the reason: it has no vote.

By itself it changes nothing about the list: members add, remove and replace do. It exits with 69 while no
majority of the nodes votes, as in a new cluster, which gets its list from the first client that takes locks.

With --json there is one object: masters (master, node, state) and others (node, state, cause). A state is up, stalled,
refusing, quarantined, down or unfit; it is empty for a master that was not given. Fields may be added, never renamed.`

func newMembers(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "members",
		Short:   "Show the list of masters in force, as the nodes have it",
		Long:    membersHelp,
		Example: "  redlock members\n  redlock members --json | jq -r '.masters[].master'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.showsNodes = true
			client, err := s.openReader(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if err := client.Ping(cmd.Context()); err != nil {
				return coded(err)
			}
			v := newMembersView(client.Members(), client.Stats().Nodes)
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			v.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	cmd.AddCommand(newMembersAdd(s), newMembersRemove(s), newMembersReplace(s))
	return cmd
}

func newMembersView(masters []string, nodes []redlock.NodeStats) membersView {
	v := membersView{Masters: []memberView{}, Others: []strangerView{}}
	for _, master := range masters {
		row := memberView{Master: master}
		if i := slices.IndexFunc(nodes, func(n redlock.NodeStats) bool { return n.Master == master }); i >= 0 {
			row.Node, row.State = nodes[i].Node, nodes[i].State
		}
		v.Masters = append(v.Masters, row)
	}
	for _, n := range nodes {
		if n.Master == "" {
			row := strangerView{Node: n.Node, State: n.State}
			if n.Err != nil {
				row.Cause = n.Err.Error()
			}
			v.Others = append(v.Others, row)
		}
	}
	return v
}

func (v *membersView) print(w io.Writer) {
	wide := 0
	for _, m := range v.Masters {
		wide = max(wide, len(printable.Line(m.Master)))
	}
	for _, m := range v.Masters {
		what := m.Node + "  " + m.State
		if m.Node == "" {
			what = "not among the nodes that were given"
		}
		fmt.Fprintf(w, "%-*s  %s\n", wide, printable.Line(m.Master), printable.Line(what))
	}
	for _, n := range v.Others {
		fmt.Fprintf(w, "no master: %s  %s  %s\n", printable.Line(n.Node), n.State, printable.Line(n.Cause))
	}
}
