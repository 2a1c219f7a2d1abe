package waitqueue

import "strings"

// Subscribed implements node.Subscriber. It records whether a node can wake this client. When the node can, the client's
// foremost waiter for each lock looks: it may have missed a wake-up, and the node learns that this client is subscribed
// (keepAlive in queue.lua). When too few nodes can wake the client, the foremost waiters look every second from then on.
func (q *Queue) Subscribed(node int, able bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, need := &q.links, q.cfg.Cluster.Need
	before := l.up.Len()
	l.tried.Add(node)
	l.up.Remove(node)
	l.serials[node] = 0
	if able {
		l.up.Add(node)
		l.latest++
		l.serials[node] = l.latest
	}
	if l.up.Len() >= need || l.tried.Len() == len(l.serials) {
		q.opens.Do(func() { close(q.open) })
	}
	switch {
	case able:
		for _, w := range q.foremost() {
			w.bell.lookNow()
		}
	case before == need && l.up.Len() < before:
		for _, w := range q.foremost() {
			w.bell.lookSoon()
		}
	}
}

// Message implements node.Subscriber. It takes a wake-up: "ready", "near" or "look", then the
// ticket, then the lock's key; "yours", then the ticket, the token and the owner; or "wanted", then the
// random part of an owner.
//
//	ready  the lock is reserved for the ticket
//	near   the ticket is the second in the queue
//	look   its client is to show that it lives
//	yours  the ticket's parked attempt was executed
//	wanted others want the lock that this client's owner holds
//
// The ticket of a waiter that has left stays in the node's queue until its release arrives
// there: a wake-up of it is answered by the client's foremost waiter for that lock. It may also
// have come back, with the data of a server that was restarted: then no release will come.
func (q *Queue) Message(node int, message string) {
	what, rest, _ := strings.Cut(message, " ")
	if what == "wanted" {
		q.Holders.tell(rest)
		return
	}
	ticket, about, _ := strings.Cut(rest, " ")
	q.mu.Lock()
	w, gone := q.waiters[ticket], false
	if w == nil && what != "yours" {
		w, gone = q.local[about].foremost(), true
	}
	serial := q.links.serials[node]
	q.mu.Unlock()
	switch {
	case w == nil:
		return
	case gone:
		w.bell.challenge()
		if staysReserved(ticket) {
			w.takeOut(node, ticket)
		}
		return
	}
	switch what {
	case "yours":
		token, owner, _ := strings.Cut(about, " ")
		w.executed(q.cfg.Cluster.Nodes[node], serial, owner, token)
	case "ready":
		w.bell.ready(node, true)
	case "near":
		w.bell.lookSoon()
	case "look":
		w.bell.lookNow()
	}
}
