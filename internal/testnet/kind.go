package testnet

import (
	"testing"

	"github.com/redlock-go/redlock"
)

// Kind is how the leases of a test hold their locks.
type Kind string

const (
	Alone  Kind = "alone"  // by a mutex
	Shared Kind = "shared" // by the readers' side of a read-write lock
)

// OfEachKind runs a test in a bubble of its own for each kind of lease: what it shows must hold
// for all of them. It makes its locks by Net.Mutex.
func OfEachKind(t *testing.T, n int, test func(t *testing.T, net *Net)) {
	t.Helper()
	for _, kind := range []Kind{Alone, Shared} {
		t.Run(string(kind), func(t *testing.T) {
			InBubble(t, n, func(t *testing.T, net *Net) {
				net.Kind = kind
				test(t, net)
			})
		})
	}
}

// Mutex makes a lock of the network's kind.
func (w *Net) Mutex(c *redlock.Client, name string, opts ...redlock.Option) *redlock.Mutex {
	if w.Kind == Shared {
		return c.RWMutex(name, opts...).RLocker()
	}
	return c.Mutex(name, opts...)
}

// Attempts, Renewals and Raises count commands in the log, of both kinds of lease.
func (n *Node) Attempts() int { return n.Executed("acquire") + n.Executed("read") }
func (n *Node) Renewals() int { return n.Executed("renew") + n.Executed("keep") }
func (n *Node) Raises() int   { return n.Executed("raise") + n.Executed("advance") }
