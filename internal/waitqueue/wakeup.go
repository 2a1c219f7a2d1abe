package waitqueue

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Subscribed implements node.Subscriber. It records whether a node can wake this client. When it can again, the
// client's foremost waiter for each lock asks: it may have missed a wake-up, and the node learns whether it can wake the
// client (lives in queue.lua). When it cannot any more, they look within about a second.
func (q *Queue) Subscribed(n *node.Node, able bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, node := &q.links, n.Index
	if !q.room(n) {
		return
	}
	lost := l.up.Has(node) && !able
	if now := q.cfg.Clock(); lost {
		if l.broke[node] > 0 && now < l.broke[node]+flapTime {
			l.flaps[node] = now + flapTime
		}
		l.broke[node] = now
	}
	l.tried.Add(node)
	l.up.Remove(node)
	l.serials[node] = 0
	if able {
		l.up.Add(node)
		l.latest++
		l.serials[node] = l.latest
	}
	q.openIfHeard()
	switch {
	case able:
		q.askAll()
	case lost:
		for _, w := range q.foremost() {
			q.lookSoon(w)
		}
	}
}

// Moved comes when the client takes another list of masters. The foremost ask: the nodes may have what is of the list before.
func (q *Queue) Moved() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.askAll()
}

// askAll has the client's foremost waiter for each lock ask, one after the other. Called under q.mu.
func (q *Queue) askAll() {
	now := q.cfg.Clock()
	for rank, w := range q.foremost() {
		w.turn.ask(now + time.Duration(rank)*rejoinStep)
	}
}

// News implements node.Subscriber.
func (q *Queue) News(n *node.Node, channel, text string) { q.cfg.News(n, channel, text) }

// Message implements node.Subscriber. It takes a wake-up: "ready", "look" or "live", then the ticket, then the lock's
// key; "watch", then the ticket and milliseconds; or "yours", then the ticket, the token and the owner. "wanted" and
// "holds" are news about holders.
//
//	ready  the lock is reserved for the ticket
//	look   its waiter is to ask
//	live   its client is to show that it lives
//	watch  its waiter is to ask after so long: those ahead may be dead by then
//	yours  the ticket's parked attempt was executed
//
// The first three are challenges: the client shows that it lives, by its waiter's attempt if there is one.
func (q *Queue) Message(n *node.Node, message string) {
	what, rest, _ := strings.Cut(message, " ")
	if what == "wanted" || what == "holds" {
		q.cfg.News(n, "", message)
		return
	}
	ticket, about, _ := strings.Cut(rest, " ")
	node := n.Index
	q.mu.Lock()
	w, here := q.waiters[ticket], q.room(n)
	serial := q.links.serials[node]
	q.mu.Unlock()
	if w != nil && w.Holds() {
		w = nil // nobody waits with it
	}
	switch {
	case !here:
	case what == "live" || w == nil && (what == "ready" || what == "look"):
		if w == nil {
			q.takeOut(node, ticket, about)
		}
		q.answer(node)
	case w == nil:
	case what == "yours":
		token, owner, _ := strings.Cut(about, " ")
		w.executed(q.cfg.Cluster.Nodes()[node], serial, owner, token)
	case what == "ready":
		w.turn.nodeReady(node, true)
	case what == "look":
		w.turn.ask(q.cfg.Clock())
	case what == "watch":
		ms, _ := strconv.Atoi(about)
		q.lookAt(w, q.cfg.Clock()+time.Duration(ms)*time.Millisecond)
	}
}

// answer shows a node that the client lives. If the node took it for dead, it may have dropped tickets: then the client's
// foremost waiters ask.
func (q *Queue) answer(node int) {
	lives := protocol.QueueTTL
	if q.isUnheard(node) {
		lives = protocol.UnheardTTL
	}
	q.cfg.Cluster.Nodes()[node].Tell("PEXPIRE", func(reply any, _ error) {
		if reply != int64(0) {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.askAll()
	}, protocol.Key("alive", q.cfg.ID), lives.Milliseconds())
}

// noteHearing records whether a node takes the client for one that it can wake.
func (q *Queue) noteHearing(node int, hears bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.links.unheard.Remove(node)
	if !hears {
		q.links.unheard.Add(node)
	}
}

// isUnheard reports whether a node takes the client for one that it cannot wake.
func (q *Queue) isUnheard(node int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.links.unheard.Has(node)
}

// takeOut takes a ticket with which nobody waits out of a node's queue. Its waiter has left, and its release is on the
// way; or the node was restarted with old data, and no release will come: then the ticket would keep others out.
func (q *Queue) takeOut(node int, ticket, named string) {
	q.cfg.Cluster.Nodes()[node].Tell("ZREM", func(any, error) {}, protocol.QueueOf(named), ticket)
}

// TakeOutStrays takes out the tickets for which nodes keep the lock and with which nobody waits, as the answers
// of a refused attempt show. A node does not wake the client that asks, nor a client that cannot subscribe.
func (w *Waiter) TakeOutStrays(b *quorum.Ballot) {
	for node, a := range b.Answers() {
		ticket, kept := strings.CutPrefix(a.Holder, protocol.Reservation)
		if !kept || !w.queue.isStray(ticket) {
			continue
		}
		for _, key := range w.lock.Keys {
			w.queue.takeOut(node, ticket, key)
		}
	}
}

// isStray reports whether a ticket is of this client, and none of its callers waits with it.
func (q *Queue) isStray(ticket string) bool {
	if _, rest, _ := strings.Cut(ticket, "-"); !strings.HasPrefix(rest, q.cfg.ID+"-") {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiters[ticket] == nil
}
