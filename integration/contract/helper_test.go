package contract

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

const (
	// ttl is so long that an expiry within a test cannot be mistaken for a release.
	ttl = 30 * time.Second

	// soon is the limit for steps that must not take a ttl. On an idle machine they take milliseconds, or
	// about a second where a client dials again.
	soon = 10 * time.Second

	// untimely is the node timeout of clients that must not need one: a call that returns soon did not
	// wait for a node that does not answer.
	untimely = 14 * time.Second

	// nodeTimeout is the node timeout of clients that must give a node up.
	nodeTimeout = 500 * time.Millisecond

	// guard is the ttl, and so the guard, of tests of masters that lost their memory.
	guard = 4 * time.Second

	name   = "name"
	prefix = "redlock:"
)

// scene is what a test of the contract has: servers, and a way to open clients.
type scene struct {
	*testing.T
	kind  cluster.Kind
	nodes cluster.Nodes
	open  openFunc
}

// addresses are those of the proxies, with the default user.
func (s scene) addresses() []address {
	all := make([]address, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = address{host: n.ProxyAddr()}
	}
	return all
}

// client opens a client whose nodes vote at once; masters that lost their memory have tests of their
// own.
func (s scene) client(opts ...redlock.ClientOption) *redlock.Client {
	s.Helper()
	return s.ready(s.clientOn(s.addresses(), append([]redlock.ClientOption{
		redlock.WithTTL(ttl), redlock.WithNodeTimeout(untimely)}, opts...)...))
}

// guarded opens a client as in production on these servers, with a short guard.
func (s scene) guarded(servers []address) *redlock.Client {
	s.Helper()
	return s.ready(s.clientOn(servers, redlock.WithRestartGuard(guard), redlock.WithTTL(guard), redlock.WithNodeTimeout(guard*2/5)))
}

// ready returns when a quorum votes.
func (s scene) ready(client *redlock.Client) *redlock.Client {
	s.Helper()
	require.NoError(s, client.WaitReady(s.within(4*soon)))
	return client
}

// clientOn opens a client on servers that need not vote.
func (s scene) clientOn(servers []address, opts ...redlock.ClientOption) *redlock.Client {
	s.Helper()
	return s.open(s, servers, opts...)
}

// lock acquires a lock that is free.
func (s scene) lock(m locker) *redlock.Lease {
	s.Helper()
	lease, err := m.Lock(s.within(2 * soon))
	require.NoError(s, err)
	return lease
}

// locker is a Mutex or an RWMutex.
type locker interface {
	Lock(ctx context.Context) (*redlock.Lease, error)
}

func (s scene) unlock(lease *redlock.Lease) {
	s.Helper()
	require.NoError(s, lease.Unlock(s.within(soon)))
}

// begin asks for a lock beside the test. The channel gets the lease, or is closed if there is none.
func (s scene) begin(acquire func(ctx context.Context) (*redlock.Lease, error)) <-chan *redlock.Lease {
	got := make(chan *redlock.Lease, 1)
	go func() {
		defer close(got)
		if lease, err := acquire(s.within(4 * soon)); assert.NoError(s, err) {
			got <- lease
		}
	}()
	return got
}

// awaitWaiters waits until n callers wait for a lock at a quorum of the nodes. At one of the others
// the holder may still be in the queue: it may have got the lock without that node.
func (s scene) awaitWaiters(c *redlock.Client, name string, n int) {
	s.Helper()
	s.await("not as many waiters as expected", func() bool {
		status, err := c.Inspect(s.within(soon), name)
		if err != nil {
			return false
		}
		waiters := 0
		for _, waiter := range status.Queue {
			if waiter.Nodes > len(status.Nodes)/2 {
				waiters++
			}
		}
		return waiters == n
	})
}

// awaitUp waits until a client may ask all nodes for votes.
func (s scene) awaitUp(c *redlock.Client) {
	s.Helper()
	s.await("a node is not up", func() bool {
		return !slices.ContainsFunc(c.Stats().Nodes, func(n redlock.NodeStats) bool { return n.State != "up" })
	})
}

// awaitKeys waits until these nodes have a key for the lease.
func (s scene) awaitKeys(lease *redlock.Lease, nodes cluster.Nodes) {
	s.Helper()
	have := func() bool {
		return !slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Get(s, prefix+name) != lease.Owner() })
	}
	require.True(s, cluster.Eventually(soon, have), "a node has no key for the lease, whose state is: %v", lease.Err())
}

// awaitNoOrphans waits until no node has a key of a lock, its readers, permits or waiters, and
// this stays so.
func (s scene) awaitNoOrphans() {
	s.Helper()
	noKeys := func() bool { return len(s.keys()) == 0 }
	require.True(s, cluster.Stays(soon, noKeys), "keys are left, now: %v", s.keys())
}

// keys returns what the nodes have, except the keys that stay when no client locks.
func (s scene) keys() (all []string) {
	stay := []string{"redlock::record:", "redlock::alive:", "redlock::newest", "redlock::format", "redlock::members", "redlock::full:", "redlock::split:",
		"redlock::quarantine:"}
	for _, n := range s.nodes {
		all = append(all, slices.DeleteFunc(n.Keys(s), func(key string) bool {
			return slices.ContainsFunc(stay, func(start string) bool { return strings.HasPrefix(key, start) })
		})...)
	}
	return all
}

func (s scene) await(otherwise string, condition func() bool) {
	s.Helper()
	require.True(s, cluster.Eventually(soon, condition), otherwise)
}

func (s scene) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	s.Cleanup(cancel)
	return ctx
}
