// Package redlocktest runs embedded nodes for tests of programs that lock
// with redlock: no Redis server, no container, nothing to install.
//
//	nodes := redlocktest.Start(t, 3)
//	client := nodes.Client(t)
//
// Client alone does both. Nodes.Hold holds a lock for another client, Nodes.Lose takes a lock from
// its holder, and Nodes.Stop takes nodes away until there is no quorum.
//
// A client of your own needs redlock.WithRestartGuard(0): the nodes are new, and otherwise do not
// vote before one guard is over, ten seconds by default.
//
// # These nodes are not Redis
//
// They are miniredis: a program that speaks Redis' protocol and keeps its data
// in the memory of the test process. They answer the few questions a redlock
// client asks as Redis would, and keys expire with the clock. Yet:
//
//   - All nodes share one process, one scheduler and one clock. They cannot
//     drift apart, stall apart or be suspended apart, and a busy test slows
//     them all at once.
//   - Lua runs in another interpreter, commands have other costs, and there
//     are no memory limits, no eviction, no persistence and no replication.
//   - In a 32-bit process they have no tokens beyond 31 bits, so use them with a restart guard of 0.
//     Under GODEBUG=fips140=only they need Go 1.26.
//   - A node that stops does so between two commands and forgets nothing but
//     its scripts; a real server may lose its last seconds, or everything.
//     Use Wipe to simulate that.
//
// So use them to test that your program takes and releases the lock, be it a Mutex or an
// RWMutex, and does the right thing when the lock is refused or nodes are down. They show nothing about speed, about
// safety when servers fail, or about a particular version of Redis. Never lock anything
// real with them.
package redlocktest

import "fmt"

// TB is what this package needs of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Nodes are embedded nodes, numbered from 0. Its methods are safe for
// concurrent use. Methods that take a number panic when there is no such node.
type Nodes struct {
	nodes []*node
}

// Start runs n nodes until tb's test is over. It fails the test when n is less
// than 1 or the machine has no ports to listen on.
func Start(tb TB, n int) *Nodes {
	tb.Helper()
	nodes, err := New(n)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(nodes.Close)
	return nodes
}

// New runs n nodes until Close, for use outside of tests. It returns an error
// when n is less than 1 or the machine has no ports to listen on.
func New(n int) (*Nodes, error) {
	if n < 1 {
		return nil, fmt.Errorf("redlocktest: %d nodes asked for, need at least 1", n)
	}
	nodes := &Nodes{}
	for range n {
		started, err := newNode()
		if err != nil {
			nodes.Close()
			return nil, fmt.Errorf("redlocktest: %w", err)
		}
		nodes.nodes = append(nodes.nodes, started)
	}
	return nodes, nil
}

// Close stops all nodes. A second call does nothing.
func (n *Nodes) Close() {
	for _, node := range n.nodes {
		node.close()
	}
}

// URLs returns the nodes' addresses in the form that redlock.Open takes. They do not change,
// also while nodes are stopped.
func (n *Nodes) URLs() []string {
	urls := make([]string, len(n.nodes))
	for i, node := range n.nodes {
		urls[i] = "redis://" + node.addr
	}
	return urls
}

// Get reads a string directly from the memory of node i, stopped or not. It returns false
// if the key is missing, has expired, or is no string.
func (n *Nodes) Get(i int, key string) (string, bool) {
	value, err := n.nodes[i].redis.Get(key)
	return value, err == nil
}

// Keys returns the keys in the memory of node i, stopped or not, sorted.
func (n *Nodes) Keys(i int) []string { return n.nodes[i].redis.Keys() }

// Stop ends the server of node i: its connections break and new ones are
// refused. Its keys stay in memory and go on expiring. Stopping a stopped node
// does nothing.
func (n *Nodes) Stop(i int) { n.nodes[i].stop() }

// Start brings a stopped node i back at its old address with the keys it still
// has, as Redis with perfect persistence would, and with no scripts loaded. It
// does nothing when the node runs, and returns an error when something else
// has taken its address meanwhile.
func (n *Nodes) Start(i int) error {
	if err := n.nodes[i].start(); err != nil {
		return fmt.Errorf("redlocktest: node %d: %w", i, err)
	}
	return nil
}

// Wipe removes all keys of node i, stopped or not. Between Stop and Start it simulates a
// server without persistence, which has forgotten its votes when it comes back.
func (n *Nodes) Wipe(i int) { n.nodes[i].redis.FlushAll() }
