package integration

import (
	"context"
	"flag"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

const (
	// ttl is the ttl in tests that look for keys left behind: so long that an expiry within
	// the test cannot be mistaken for a release.
	ttl = 30 * time.Second

	// soon is the limit for steps that must not take a ttl, or a long node timeout. On an
	// idle machine they take milliseconds, or about a second if a client dials again or a
	// waiter polls: the library's own tests show that in virtual time. A busy machine may
	// take longer, but not this long.
	soon = 10 * time.Second

	// untimely is the node timeout of tests that do not need one: a healthy server of a busy
	// machine always votes in time, and a call that returns soon did not wait for a node
	// that does not answer.
	untimely = 14 * time.Second

	// nodeTimeout is the node timeout of clients that must give a node up.
	nodeTimeout = 500 * time.Millisecond

	// connectionLife is how long a client keeps a connection on which a node does
	// not answer.
	connectionLife = 4 * nodeTimeout

	prefix = "redlock:"
)

var soak = flag.Bool("soak", false, "run the tests that are long or compare speeds")

// soakOnly skips a test that is long or compares speeds, unless -soak is given.
func soakOnly(t *testing.T) {
	t.Helper()
	if !*soak {
		t.Skip("it is long or compares speeds: make soak runs it")
	}
}

// notInShort skips a test that takes more than a few seconds, unless REDLOCK_LONG is set.
func notInShort(t *testing.T) {
	t.Helper()
	if !long.Tests() {
		t.Skip("make verify runs it")
	}
}

// shortTimeout makes a client soon give up a node that does not answer.
func shortTimeout() redlock.Option { return redlock.WithNodeTimeout(nodeTimeout) }

// openClient makes a client that ends with the test. It returns when a quorum votes.
func openClient(t testing.TB, urls []string, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.Open(t, urls, withDefaults(opts)...)
}

// openUnready is openClient for a test in which no quorum votes at the start.
func openUnready(t testing.TB, urls []string, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.OpenUnready(t, urls, withDefaults(opts)...)
}

func withDefaults(opts []redlock.ClientOption) []redlock.ClientOption {
	return append([]redlock.ClientOption{redlock.WithTTL(ttl), redlock.WithNodeTimeout(untimely)}, opts...)
}

// newClient is openClient over pools.
func newClient(t testing.TB, pools []redlock.Pool, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.New(t, pools, withDefaults(opts)...)
}

// barePools are a user's pools that have no timeouts at all.
func barePools(maxActive int, addrs ...string) []redlock.Pool {
	pools := make([]redlock.Pool, len(addrs))
	for i, addr := range addrs {
		pools[i] = &redis.Pool{
			MaxActive: maxActive,
			Dial:      func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
		}
	}
	return pools
}

// within returns a context for calls that are expected to succeed within d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// assertUsable locks, extends and unlocks.
func assertUsable(t testing.TB, client *redlock.Client, name string) {
	t.Helper()
	ctx := within(t, soon)
	lease, err := client.Mutex(name).Lock(ctx)
	require.NoError(t, err)
	require.True(t, lease.Valid())
	require.NoError(t, lease.Extend(ctx))
	require.NoError(t, lease.Unlock(ctx))
}

// awaitAllVotes waits until every node grants the client's locks.
func awaitAllVotes(t testing.TB, client *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	require.True(t, eventually(soon, func() bool { return countVotes(t, client, nodes) == len(nodes) }),
		"not all nodes vote")
}

// countVotes locks a name and counts the nodes that have it.
func countVotes(t testing.TB, client *redlock.Client, nodes cluster.Nodes) int {
	t.Helper()
	lease, err := client.Mutex("probe").TryLock(t.Context())
	if err != nil {
		return 0
	}
	defer func() { _ = lease.Unlock(t.Context()) }()
	votes := 0
	eventually(100*time.Millisecond, func() bool { // some votes come after the verdict
		votes = 0
		for _, n := range nodes {
			if n.Get(t, prefix+"probe") == lease.Owner() {
				votes++
			}
		}
		return votes == len(nodes)
	})
	return votes
}

// eventually polls until the condition holds. It reports whether it held in time.
func eventually(d time.Duration, condition func() bool) bool { return cluster.Eventually(d, condition) }

// assertNoKeys expects every node to be empty soon, long before any ttl ends, and
// to stay so: a command that is executed late must not leave a key either.
func assertNoKeys(t testing.TB, nodes cluster.Nodes) {
	t.Helper()
	noKeys := func() bool { return len(allKeys(t, nodes)) == 0 }
	require.True(t, cluster.Stays(soon, noKeys), "keys are left, now, by node: %v", allKeys(t, nodes))
}

// allKeys returns the keys of each node that has any locks or readers.
func allKeys(t testing.TB, nodes cluster.Nodes) map[int][]string {
	t.Helper()
	all := map[int][]string{}
	for i, n := range nodes {
		keys := slices.DeleteFunc(n.Keys(t), func(key string) bool {
			return strings.HasPrefix(key, "redlock::") && !strings.HasPrefix(key, "redlock::readers:")
		})
		if len(keys) > 0 {
			all[i] = keys
		}
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// assertLeakFree expects that all goroutines that the test starts from here on have ended
// when the test has ended and its clients are closed.
func assertLeakFree(t testing.TB) {
	t.Helper()
	opts := append(cluster.IgnoreOwn(), goleak.IgnoreCurrent())
	t.Cleanup(func() { goleak.VerifyNone(t, opts...) })
}

// timed returns how long f took.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// hiccups measures the delays of the machine: how late this process's own timers fire, and
// how long a bare PING takes at the healthy servers. On a loaded machine a goroutine, or a
// server, that is ready to run may have to wait for a processor. Tests of time limits add
// that much, and a little for the work itself.
type hiccups struct {
	worst atomic.Int64
	stop  chan struct{}
	ended sync.WaitGroup
}

// watchHiccups measures until the test ends.
func watchHiccups(t testing.TB, healthy ...*cluster.Node) *hiccups {
	t.Helper()
	h := &hiccups{stop: make(chan struct{})}
	h.watch(func() time.Duration {
		const nap = time.Millisecond
		return timed(func() { time.Sleep(nap) }) - nap
	})
	for _, n := range healthy {
		c, err := redis.Dial("tcp", n.Addr(), redis.DialReadTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		h.watch(func() time.Duration {
			time.Sleep(5 * time.Millisecond)
			return timed(func() { _, _ = c.Do("PING") })
		})
	}
	t.Cleanup(func() { close(h.stop); h.ended.Wait() })
	return h
}

// watch measures again and again, in a goroutine of its own.
func (h *hiccups) watch(measure func() time.Duration) {
	h.ended.Go(func() {
		for {
			select {
			case <-h.stop:
				return
			default:
			}
			d := int64(measure())
			for worst := h.worst.Load(); d > worst && !h.worst.CompareAndSwap(worst, d); {
				worst = h.worst.Load()
			}
		}
	})
}

// longest is the worst of them.
func (h *hiccups) longest() time.Duration { return time.Duration(h.worst.Load()) }

// allowance is the tolerance for one time limit.
func (h *hiccups) allowance() time.Duration { return 15*time.Millisecond + 2*h.longest() }
