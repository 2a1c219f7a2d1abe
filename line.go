package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Lock that is refused joins the line for its name at every node that refused
// it. The nodes' scripts keep the order and hand a lock that is released over to
// the first in line: they reserve it and tell the client. docs/algorithm.md has
// the whole of it; scripts/line.lua the rules.

// line is a client's part in the lines of all locks: those of its callers that
// queue, and how the nodes call them.
type line struct {
	client *Client
	id     string // names the client in tickets and at the nodes
	serial atomic.Uint64

	begin sync.Once
	opens sync.Once
	open  chan struct{} // closed when a quorum of the nodes can call us, or all have been tried

	mu      sync.Mutex         // protects what follows
	waiters map[string]*waiter // by ticket: who queues, and who holds after that
	yielded string             // the key of the lock that was handed over last
	until   time.Duration      // while whom it was handed to is on the way
	ears    nodeSet            // nodes that can call us
	serials []uint64           // of the connections on which they do; 0 where they cannot
	latest  uint64             // of these
	tried   nodeSet            // nodes where that was tried
}

func newLine(c *Client, n int) *line {
	return &line{client: c, id: c.opts.chance.name("client")[:16], open: make(chan struct{}), waiters: make(map[string]*waiter),
		serials: make([]uint64, n)}
}

// channel is the one on which the nodes call this client.
func (l *line) channel() string { return reserved + "wake:" + l.id }

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
			c.running.Go(func() { n.listen(c.life, l) })
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

// hears notes whether a node can call us. When it can again, calls may have been
// missed: the first of ours in each line looks again. Not so where it can for the
// first time and a quorum could before: of any quorum that called, one was heard.
// When too few can, it looks every second from then on.
func (l *line) hears(node int, able bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, first := l.ears.len(), !l.tried.has(node)
	l.tried.add(node)
	l.ears.remove(node)
	l.serials[node] = 0
	if able {
		l.ears.add(node)
		l.latest++
		l.serials[node] = l.latest
	}
	c := l.client
	if l.ears.len() >= c.quorum || l.tried.len() == len(c.nodes) {
		l.opens.Do(func() { close(l.open) })
	}
	switch {
	case able && !(first && before >= c.quorum):
		for _, w := range l.foremost() {
			w.lookNow()
		}
	case before == c.quorum && l.ears.len() < before:
		for _, w := range l.foremost() {
			w.isNear()
		}
	}
}

// foremost are the client's waiters that are before all its others for the same
// lock. Called under l.mu.
func (l *line) foremost() []*waiter {
	first := make(map[string]string) // tickets, by the locks' keys
	for ticket, w := range l.waiters {
		if other, found := first[w.mutex.key]; !w.isHolder() && (!found || ticket < other) {
			first[w.mutex.key] = ticket
		}
	}
	all := make([]*waiter, 0, len(first))
	for _, ticket := range first {
		all = append(all, l.waiters[ticket])
	}
	return all
}

// deaf tells that too few nodes can call us: the timers must serve.
func (l *line) deaf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ears.len() < l.client.quorum
}

// hearing are the serials of the connections on which the nodes call, as they are now.
func (l *line) hearing() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.serials)
}

// heard takes a call of a node: "ready" or "near", then the ticket, then the lock's
// key; "yours", then the ticket, the count and the owner. Ready: the lock is reserved
// for the ticket. Near: it is second in line. Yours: its attempt was executed late.
func (l *line) heard(n *node, message string) {
	what, rest, _ := strings.Cut(message, " ")
	ticket, said, _ := strings.Cut(rest, " ")
	l.mu.Lock()
	w := l.waiters[ticket]
	serial := l.serials[n.index]
	l.mu.Unlock()
	if w == nil {
		return // it has left: its release is on its way
	}
	switch what {
	case "yours":
		count, owner, _ := strings.Cut(said, " ")
		w.granted(n, serial, owner, count)
	case "ready":
		w.ready(n.index, true)
	case "near":
		w.isNear()
	}
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
