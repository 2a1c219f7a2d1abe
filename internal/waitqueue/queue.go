package waitqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Config is what the waiters of a client have in common.
type Config struct {
	ID          string // names the client in tickets and at the nodes
	Clock       system.Clock
	Random      system.Random
	Life        *life.Life
	Cluster     *quorum.Cluster
	NodeTimeout time.Duration // for how long Listen waits for subscriptions, at most

	// The subscriptions also bring news about holders, on Channels and on the channel of wake-ups; there channel is
	// "". News must not block.
	Channels *node.Channels
	News     func(n *node.Node, channel, text string)
}

// Queue is a client's part in the wait queues of all locks.
type Queue struct {
	cfg    Config
	serial atomic.Uint64 // of the last ticket

	listen sync.Once
	opens  sync.Once
	open   chan struct{} // closed when a quorum of the nodes can wake this client, or all have been tried

	mu      sync.Mutex           // protects what follows
	waiters map[string]*Waiter   // by ticket: waiters, and those that got the lock
	local   map[string]group     // by the lock's key: waiters that stand in queues
	rejoins map[string]rejoining // by the lock's key: the last rejoining of its group
	checked time.Duration        // when WatchClocks had the clocks read last
	links   links
}

// links are the subscriptions over which nodes wake the client. They are protected by the
// queue's lock.
type links struct {
	up      quorum.NodeSet // nodes that can wake the client
	tried   quorum.NodeSet // nodes at which that was tried
	unheard quorum.NodeSet // nodes that take the client for one that they cannot wake
	serials []uint64       // of the subscriptions; 0 where there is none
	latest  uint64         // of these

	broke []time.Duration // when each subscription broke last; 0: never
	flaps []time.Duration // until when each counts as one that breaks again and again; 0: it does not

	of        []*admission.Member // to whose nodes the client subscribes
	listening bool                // Subscribe has been called
	awaited   bool                // Listen has been called: callers are to join queues
}

// room makes the lists long enough for a node, and returns false if another one has its place. Called under q.mu.
func (q *Queue) room(n *node.Node) bool {
	l := &q.links
	for len(l.serials) <= n.Index {
		l.serials, l.broke, l.flaps, l.of = append(l.serials, 0), append(l.broke, 0), append(l.flaps, 0), append(l.of, nil)
	}
	return q.cfg.Cluster.Nodes()[n.Index].Node == n
}

// flapTime is the time within which a second break of a subscription shows that it breaks again and again, and for how
// long it counts as one that does. A node takes a client for dead as soon as its subscription is gone: there such a client
// asks to be taken for one that cannot subscribe, and keeps its place by asking.
const flapTime = time.Minute

// Flaps returns the nodes to which the client's subscriptions break again and again.
func (q *Queue) Flaps() (at quorum.NodeSet) {
	now := q.cfg.Clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	for node, until := range q.links.flaps {
		if now < until {
			at.Add(node)
		}
	}
	return at
}

// NewQueue makes a client's part in the wait queues.
func NewQueue(cfg Config) *Queue {
	return &Queue{cfg: cfg, open: make(chan struct{}), waiters: make(map[string]*Waiter), local: make(map[string]group),
		rejoins: make(map[string]rejoining)}
}

// IsOpen reports whether the client listens: then a caller of Lock may join the wait queue
// with its first attempt.
func (q *Queue) IsOpen() bool {
	select {
	case <-q.open:
		return true
	default:
		return false
	}
}

// Listen has the client subscribe to wake-ups at all nodes, when it is called for the first
// time. It returns when a quorum of the subscriptions stands, or after the node timeout: a
// waiter that joins a queue earlier would miss its wake-up. Errors: life.ErrClosed, or ctx's
// cause.
func (q *Queue) Listen(ctx context.Context) error {
	if err := q.cfg.Life.Enter(ctx); err != nil {
		return err
	}
	q.Subscribe()
	q.cfg.Life.Leave()
	q.mu.Lock()
	q.links.awaited = true
	q.openIfHeard()
	q.mu.Unlock()
	timeout := time.NewTimer(q.cfg.NodeTimeout)
	defer timeout.Stop()
	select {
	case <-q.open:
		return nil
	case <-timeout.C:
		q.opens.Do(func() { close(q.open) })
		return nil
	case <-ctx.Done():
		return life.EndOf(ctx)
	case <-q.cfg.Life.Closing():
		return life.ErrClosed
	}
}

// Subscribe has the client subscribe at all nodes, when it is called for the first time. Only a call that life.Enter
// admitted may call it.
func (q *Queue) Subscribe() {
	q.listen.Do(func() {
		q.mu.Lock()
		q.links.listening = true // before the nodes are read: one that joins now is found here, or by Join
		q.mu.Unlock()
		for _, n := range q.cfg.Cluster.Nodes() {
			q.Join(n)
		}
	})
}

// openIfHeard has callers of Lock join the wait queues, if a quorum of the nodes can wake the client, or all were
// tried. Called under q.mu.
func (q *Queue) openIfHeard() {
	l := &q.links
	if l.awaited && (l.up.Len() >= q.cfg.Cluster.Need() || l.tried.Len() == len(q.cfg.Cluster.Nodes())) {
		q.opens.Do(func() { close(q.open) })
	}
}

// Join has the client subscribe to wake-ups at a node, if it does at others.
func (q *Queue) Join(n *admission.Member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := &q.links; l.listening && q.room(n.Node) && l.of[n.Index] != n {
		l.of[n.Index], l.serials[n.Index], l.broke[n.Index], l.flaps[n.Index] = n, 0, 0, 0
		l.up.Remove(n.Index) // it was the subscription of a node that left
		q.cfg.Life.Go(func() { n.Listen(n.Life(), protocol.WakeChannel(q.cfg.ID), q.cfg.Channels, q) })
	}
}

// Up returns the nodes that can wake the client.
func (q *Queue) Up() quorum.NodeSet {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.links.up
}

// newTicket makes a ticket for a waiter that asked at an instant. Tickets order alike
// everywhere, whatever the clients' clocks show: they have the nodes' time.
func (q *Queue) newTicket(w *Waiter) string {
	w.place = w.asked + q.serverTime()
	ticket := fmt.Sprintf("%016d-%s-%010d%s", w.place.Microseconds(), q.cfg.ID, q.serial.Add(1), w.lock.Suffix)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[ticket] = w
	return ticket
}

// serverTime returns what must be added to the client's clock to have the nodes' time since
// 1970: the median of those that are known, else by the wall clock. Tickets have this time,
// not the client's: clients' clocks may be far apart.
func (q *Queue) serverTime() time.Duration {
	var all []time.Duration
	for _, n := range q.cfg.Cluster.Nodes() {
		if ahead, known := n.Offset(); known {
			all = append(all, ahead)
		}
	}
	if len(all) == 0 {
		return time.Duration(time.Now().UnixNano()) - q.cfg.Clock()
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// WatchClocks has the nodes' clocks read soon: a waiter has fallen back in the queue, so they may have been set back.
func (q *Queue) WatchClocks() {
	now := q.cfg.Clock()
	q.mu.Lock()
	due := q.checked == 0 || now-q.checked >= firstLook
	if due {
		q.checked = now
	}
	q.mu.Unlock()
	for _, n := range q.cfg.Cluster.Nodes() {
		if due {
			n.Nudge()
		}
	}
}

func (q *Queue) forget(ticket string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiters, ticket)
}
