package redlock

import "strings"

// Member is a master of the list in force.
type Member struct {
	Master string // its address, as the list has it
	Node   int    // the index of this client's node that is this master; -1: none is
}

// Members returns the list of masters in force, as the nodes have it: the one in which a majority of this client's nodes
// stands. It asks no node. It returns nil while there is no such list, and with WithRestartGuard(0). A node that is none of
// these masters has no vote; the NodeStats of it say why.
func (c *Client) Members() (all []Member) {
	list, places := c.group.InForce()
	if list == nil {
		return nil
	}
	for _, master := range strings.Fields(list.Masters) {
		m := Member{Master: master, Node: -1}
		for i, place := range places {
			if place == master {
				m.Node = i
			}
		}
		all = append(all, m)
	}
	return all
}
