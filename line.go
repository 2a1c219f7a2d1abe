package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A Lock that is refused joins the line for its name at every node that refused
// it. The nodes' scripts keep the order and hand a lock that is released over to
// the first in line: they reserve it and tell the client. docs/algorithm.md has
// the whole of it; internal/protocol/line.lua the rules.

// line is a client's part in the lines of all locks: those of its callers that
// queue, and how the nodes call them.
type line struct {
	client *Client
	id     string // names the client in tickets and at the nodes
	serial atomic.Uint64

	begin sync.Once
	opens sync.Once
	open  chan struct{} // closed when a quorum of the nodes can call us, or all have been tried

	mu      sync.Mutex           // protects what follows
	waiters map[string]*waiter   // by ticket: waiters that queue, and those that got the lock
	queues  map[string]queue     // by the lock's key: waiters that stand in line
	rejoins map[string]rejoining // by the lock's key: the last rejoining of its queue
	yielded string               // the key of the lock that was handed over last
	until   time.Duration        // while whom it was handed to is on the way
	ears    quorum.NodeSet       // nodes that can call us
	serials []uint64             // of the connections on which they do; 0 where they cannot
	latest  uint64               // of these
	tried   quorum.NodeSet       // nodes where that was tried
}

func newLine(c *Client, n int) *line {
	return &line{client: c, id: c.opts.random.ID("client")[:16], open: make(chan struct{}), waiters: make(map[string]*waiter),
		queues: make(map[string]queue), rejoins: make(map[string]rejoining), serials: make([]uint64, n)}
}

// channel is the one on which the nodes call this client.
func (l *line) channel() string { return protocol.Reserved + "wake:" + l.id }

// isOpen tells that callers of Lock may queue at once.
func (l *line) isOpen() bool {
	select {
	case <-l.open:
		return true
	default:
		return false
	}
}

// turnOn opens the connections on which the nodes call, at the first wait, and
// returns when a quorum of them stands: who queued before would miss its call.
func (l *line) turnOn(ctx context.Context) error {
	c := l.client
	if err := c.enter(ctx); err != nil {
		return err
	}
	l.begin.Do(func() {
		for _, n := range c.nodes {
			c.running.Go(func() { n.Listen(c.life, l.channel(), l) })
		}
	})
	c.leave()
	patience := time.NewTimer(c.opts.voteTimeout())
	defer patience.Stop()
	select {
	case <-l.open:
		return nil
	case <-patience.C:
		l.opens.Do(func() { close(l.open) })
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closing:
		return ErrClosed
	}
}

// Subscribed implements node.Subscriber. It records whether a node can call this client.
// When the node can again, calls may have been missed: the client's first waiter in each
// line looks again, unless the node can for the first time and a quorum could before: of
// any quorum that called, one was heard. When too few can call, the waiter looks every
// second from then on.
func (l *line) Subscribed(node int, able bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, first := l.ears.Len(), !l.tried.Has(node)
	l.tried.Add(node)
	l.ears.Remove(node)
	l.serials[node] = 0
	if able {
		l.ears.Add(node)
		l.latest++
		l.serials[node] = l.latest
	}
	c := l.client
	if l.ears.Len() >= c.cluster.Need || l.tried.Len() == len(c.nodes) {
		l.opens.Do(func() { close(l.open) })
	}
	switch {
	case able && !(first && before >= c.cluster.Need):
		for _, w := range l.foremost() {
			w.lookNow()
		}
	case before == c.cluster.Need && l.ears.Len() < before:
		for _, w := range l.foremost() {
			w.isNear()
		}
	}
}

// deaf tells that too few nodes can call us: the timers must serve.
func (l *line) deaf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ears.Len() < l.client.cluster.Need
}

// hearing are the serials of the connections on which the nodes call, as they are now.
func (l *line) hearing() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.serials)
}

// Message implements node.Subscriber. It takes a call of a node: "ready", "near" or
// "look", then the ticket, then the lock's key; "yours", then the ticket, the count and
// the owner. Ready: the lock is reserved for the ticket. Near: it is second in line. Look:
// its client is to show that it lives. Yours: its attempt was executed late. The ticket of
// a waiter that has left stays in the node's line until its release arrives there: a call
// of it is answered by the client's foremost waiter for that lock.
func (l *line) Message(node int, message string) {
	what, rest, _ := strings.Cut(message, " ")
	ticket, said, _ := strings.Cut(rest, " ")
	l.mu.Lock()
	w, gone := l.waiters[ticket], false
	if w == nil && what != "yours" {
		w, gone = l.queues[said].foremost(), true
	}
	serial := l.serials[node]
	l.mu.Unlock()
	switch {
	case w == nil:
		return
	case gone:
		w.isChallenged()
		return
	}
	switch what {
	case "yours":
		count, owner, _ := strings.Cut(said, " ")
		w.granted(l.client.nodes[node], serial, owner, count)
	case "ready":
		w.ready(node, true)
	case "near":
		w.isNear()
	case "look":
		w.lookNow()
	}
}

// serverTime is what must be added to the client's clock to have the nodes' time since
// 1970: the median of those that are known, else by the wall clock. Tickets tell this
// time, not the client's: clients' clocks may be far apart.
func (c *Client) serverTime() time.Duration {
	var all []time.Duration
	for _, n := range c.nodes {
		if ahead, known := n.Offset(); known {
			all = append(all, ahead)
		}
	}
	if len(all) == 0 {
		return time.Duration(time.Now().UnixNano()) - c.opts.clock()
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// register makes a ticket for who asked at that instant. Tickets order alike
// everywhere, whatever the clients' clocks show: they tell the nodes' time.
func (l *line) register(w *waiter) string {
	micros := (w.asked + l.client.serverTime()).Microseconds()
	ticket := fmt.Sprintf("%016d-%s-%010d", micros, l.id, l.serial.Add(1))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters[ticket] = w
	return ticket
}

// handedOver notes that a lock went to somebody who waits, after a release that
// took this long. Whoever it was handed to needs about as long to come: until then
// this client does not ask for it again, which would only hold that one up. Nothing
// is lost: the ticket tells when it was asked for.
func (l *line) handedOver(key string, trip time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yielded, l.until = key, l.client.opts.clock()+trip*3/2
}

// courtesy is how long a new waiter lets the one go first to whom this client has
// just handed the lock over.
func (l *line) courtesy(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.yielded != key {
		return 0
	}
	return l.until - l.client.opts.clock()
}

func (l *line) forget(ticket string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, ticket)
}
