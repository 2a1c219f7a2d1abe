package testnet

import (
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/long"
)

// Kind is how the leases of a test hold their locks.
type Kind string

const (
	Alone   Kind = "alone"   // by a mutex
	Shared  Kind = "shared"  // by the readers' side of a read-write lock
	Several Kind = "several" // by a lock of two names
)

// OfEachKind runs a test once for each kind of lease, each time in a bubble of its own. Such a test must
// pass for all kinds. It makes its locks by Net.Mutex, which returns a lock of the kind of the run.
func OfEachKind(t *testing.T, n int, test func(t *testing.T, net *Net)) {
	t.Helper()
	kinds := []Kind{Alone, Shared}
	if long.Tests() { // only in make verify: with a third kind, make test would take too long
		kinds = append(kinds, Several)
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			InBubble(t, n, func(t *testing.T, net *Net) {
				net.Kind = kind
				test(t, net)
			})
		})
	}
}

// Mutex makes a lock of the network's kind.
func (w *Net) Mutex(c *redlock.Client, name string, opts ...redlock.LockOption) *redlock.Mutex {
	switch w.Kind {
	case Shared:
		return c.RWMutex(name, opts...).RLocker()
	case Several:
		return c.Multi([]string{name, name + OtherName}, opts...)
	}
	return c.Mutex(name, opts...)
}

// OtherName follows the name of a lock in the second name of the kind Several.
const OtherName = " too"

// Drop deletes the keys of a lease of any kind.
func (n *Node) Drop(l *redlock.Lease) {
	for _, name := range l.Names() {
		n.Redis.Del("redlock:" + name)
		n.Redis.Del(protocol.Key("readers", "redlock:"+name))
	}
}

// Attempts, Renewals and Raises count commands in the log, of all kinds of lease.
func (n *Node) Attempts() int { return n.executedAny("acquire", "read", "acquireall") }
func (n *Node) Renewals() int { return n.executedAny("renew", "keep", "renewall") }
func (n *Node) Raises() int   { return n.executedAny("raise") }
func (n *Node) Releases() int { return n.executedAny("release", "releaseall") }

func (n *Node) executedAny(scripts ...string) (all int) {
	for _, name := range scripts {
		all += n.Executed(name)
	}
	return all
}
