// Package cluster runs real Redis servers for tests and breaks them on purpose:
// it kills, restarts, freezes and cuts them off, and loses their replies.
//
// The servers are Docker containers, or redis-server processes where no Docker
// engine answers; every fault works with both. They form a pool that all tests of
// a run share: Use lends servers to one test at a time, healthy and empty, and
// starts further ones where too few are idle. So tests may run in parallel.
package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// shared is the pool of servers.
var shared struct {
	sync.Mutex
	backend backend
	version string // of the first server, with its program's name
	nodes   Nodes  // all that were started
	lent    map[*Node]bool
	created int // numbers handed out to nodes
}

// Main runs the tests and removes every server afterwards, also when the test
// process dies. TestMain calls it and exits with its result.
func Main(m *testing.M) int {
	if os.Getenv(reaperEnv) != "" {
		return runReaper(os.Stdin)
	}
	code := m.Run()
	if len(shared.nodes) > 0 {
		fmt.Printf("servers: %d %s, %s\n", len(shared.nodes), shared.backend.describe(), shared.version)
	}
	if err := shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "integration: clean-up:", err)
		code = 1
	}
	if err := goleak.Find(IgnoreOwn()...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "integration: after all tests:", err)
		code = 1
	}
	return code
}

// Use lends the test n running, reachable, empty masters until it ends. All changes to them
// are undone before another test gets them. Changes that could disturb other tests are
// undone when the test ends: servers are thawed and healed, and a replica of another test's
// server becomes a master.
func Use(t testing.TB, n int) Nodes {
	t.Helper()
	nodes, err := acquire(n)
	t.Cleanup(func() {
		nodes.Thaw(t)
		nodes.Heal()
		for _, n := range nodes {
			if n.follows {
				n.Lead(t)
			}
		}
		release(nodes)
	})
	require.NoError(t, err, "start %d Redis servers", n)
	return nodes
}

// IgnoreOwn lets goleak overlook the goroutines of this package.
func IgnoreOwn() []goleak.Option {
	const pkg = "github.com/redlock-go/redlock/integration/cluster."
	var opts []goleak.Option
	for _, f := range []string{
		pkg + "(*proxy).accept", pkg + "(*link).run", pkg + "(*link).read", pkg + "(*link).write",
		pkg + "(*process).wait",
		// The Docker client's idle connections.
		"net/http.(*persistConn).readLoop", "net/http.(*persistConn).writeLoop",
	} {
		opts = append(opts, goleak.IgnoreAnyFunction(f))
	}
	return opts
}

// acquire returns n servers that no other test uses. With an error it returns
// those that it got nevertheless.
func acquire(n int) (Nodes, error) {
	idle, b, first, err := reserve(n)
	if err != nil {
		return nil, err
	}
	fresh := make(Nodes, n-len(idle))
	err = errors.Join(
		each(len(idle), func(i int) error { return idle[i].reset() }),
		each(len(fresh), func(i int) (err error) {
			fresh[i], err = newNode(first+i, b)
			return err
		}))
	fresh = slices.DeleteFunc(fresh, func(n *Node) bool { return n == nil })
	return append(idle, fresh...), errors.Join(err, register(fresh))
}

// reserve marks up to n idle servers as lent, the oldest first, and reserves
// numbers, from first on, for those that must be started.
func reserve(n int) (idle Nodes, b backend, first int, err error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.backend == nil {
		if shared.backend, err = chooseBackend(); err != nil {
			return nil, nil, 0, err
		}
		shared.lent = map[*Node]bool{}
	}
	for _, node := range shared.nodes {
		if len(idle) < n && !shared.lent[node] {
			shared.lent[node] = true
			idle = append(idle, node)
		}
	}
	first = shared.created
	shared.created += n - len(idle)
	return idle, shared.backend, first, nil
}

// register adds started servers to the pool, as lent.
func register(fresh Nodes) error {
	shared.Lock()
	defer shared.Unlock()
	for _, node := range fresh {
		shared.lent[node] = true
	}
	shared.nodes = append(shared.nodes, fresh...)
	slices.SortFunc(shared.nodes, func(a, b *Node) int { return a.index - b.index })
	if shared.version != "" || len(fresh) == 0 {
		return nil
	}
	var err error
	shared.version, err = fresh[0].version()
	return err
}

// release returns servers to the pool.
func release(nodes Nodes) {
	shared.Lock()
	defer shared.Unlock()
	for _, node := range nodes {
		delete(shared.lent, node)
	}
}

func shutdown() error {
	shared.Lock()
	defer shared.Unlock()
	err := each(len(shared.nodes), func(i int) error { return shared.nodes[i].remove() })
	shared.nodes = nil
	if shared.backend != nil {
		err = errors.Join(err, shared.backend.close())
		shared.backend = nil
	}
	return errors.Join(err, stopReaper())
}

// each calls f for 0 … n-1 at the same time and joins the errors.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
