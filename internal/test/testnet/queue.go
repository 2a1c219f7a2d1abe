package testnet

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// QueueUp puts so many waiters of a client into the wait queue, one after the other.
func QueueUp(t *testing.T, c *redlock.Client, n int) (leave context.CancelFunc, served *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(t.Context())
	served = new(sync.WaitGroup)
	for range n {
		served.Go(func() {
			if lease, err := c.Mutex("x").Lock(ctx); err == nil {
				_ = lease.Unlock(ctx)
			}
		})
		time.Sleep(ms)
	}
	return cancel, served
}

// RequireNoLines checks that nobody stands in any line.
func (w *Net) RequireNoLines() {
	w.T.Helper()
	w.requireNone("queue:")
}

// RequireNoTraces checks that no waiter has left anything: a place in a queue, a parked attempt, or
// what it wants.
func (w *Net) RequireNoTraces() {
	w.T.Helper()
	for _, kind := range []string{"queue:", "parked:", "wants:"} {
		w.requireNone(kind)
	}
}

// requireNone checks that no node has a key of this kind.
func (w *Net) requireNone(kind string) {
	w.T.Helper()
	synctest.Wait()
	for _, n := range w.Nodes {
		for _, key := range n.Keys() {
			require.False(w.T, strings.HasPrefix(key, protocol.Reserved+kind), "node %d has %s", n.Index, key)
		}
	}
}

// dead has the leases of processes that died. It refers to them also after their tests: the
// garbage collector would release them, outside of their tests' bubbles.
var dead sync.Map

// Die ends a lease as if the process did: nothing is renewed nor released.
func (w *Net) Die(c *redlock.Client, lease *redlock.Lease) {
	testhook.Engine(c).Renewer.Forget(testhook.Lease(lease))
	dead.Store(lease, nil)
}

// Skew gives each link to the node a delay of its own.
func (n *Node) Skew() {
	for _, l := range n.Links {
		l.Delay = rand.N(20 * ms)
	}
}

// HandOff lets b wait for a lock that a holds, lets something happen, and has a
// release it. It returns b's lease, how long after the release it came, and how many
// attempts it took at most at one node.
func HandOff(t *testing.T, net *Net, a, b *redlock.Mutex, wait time.Duration, meanwhile func()) (next *redlock.Lease, took time.Duration, attempts int) {
	lease, err := a.Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait() // it has all nodes
	for _, n := range net.Nodes {
		n.Set(func(n *Node) { n.Delay, n.Log = 10*ms, nil })
	}
	got := make(chan *redlock.Lease)
	go func() {
		next, err := b.Lock(t.Context())
		require.NoError(t, err)
		got <- next
	}()
	time.Sleep(wait)
	meanwhile()
	took = Elapsed(func() {
		go func() { require.NoError(t, lease.Unlock(t.Context())) }()
		next = <-got
	})
	if next.Shared() {
		require.GreaterOrEqual(t, next.Token(), lease.Token())
	} else {
		require.Greater(t, next.Token(), lease.Token())
	}
	for _, n := range net.Nodes {
		attempts = max(attempts, n.Attempts())
	}
	return next, took, attempts
}

// ListeningClient makes a client that all nodes can wake: the first wait opens the
// subscriptions.
func ListeningClient(t *testing.T, net *Net, opts ...redlock.ClientOption) *redlock.Client {
	c := net.Client(opts...)
	queue := testhook.Engine(c).Queue()
	require.NoError(t, queue.Listen(t.Context()))
	for queue.Up().Len() < len(net.Nodes) {
		time.Sleep(ms)
	}
	return c
}

// RequireNothingParked checks that no attempt waits to be executed.
func (w *Net) RequireNothingParked() {
	w.T.Helper()
	w.requireNone("parked:")
}
