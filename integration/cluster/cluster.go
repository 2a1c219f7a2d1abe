// Package cluster runs real Redis servers for tests and breaks them on purpose:
// it kills, restarts, freezes and cuts them off, and loses their replies.
//
// The servers are Docker containers, or redis-server processes where no Docker
// engine answers; every fault works with both. They are started once and shared
// by all tests of a run: Use hands them out healthy and empty, so tests that
// share them must not run in parallel.
package cluster

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var shared struct {
	sync.Mutex
	backend backend
	nodes   []*Node
}

// Main runs the tests and removes every server afterwards, also when the test
// process dies. TestMain calls it and exits with its result.
func Main(m *testing.M) int {
	if os.Getenv(reaperEnv) != "" {
		return runReaper(os.Stdin)
	}
	code := m.Run()
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

// Use returns n running, reachable, empty masters that all tests share. Whatever
// the test does to them is undone before the next one gets them; they are thawed
// and healed as soon as the test ends.
func Use(t testing.TB, n int) Nodes {
	t.Helper()
	nodes, err := acquire(n)
	require.NoError(t, err, "start %d Redis servers", n)
	t.Cleanup(func() {
		nodes.Thaw(t)
		nodes.Heal()
	})
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

func acquire(n int) (Nodes, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.backend == nil {
		b, err := chooseBackend()
		if err != nil {
			return nil, err
		}
		shared.backend = b
		fmt.Printf("integration: the Redis servers run as %s\n", b.describe())
	}
	missing := max(0, n-len(shared.nodes))
	fresh := make([]*Node, missing)
	err := each(missing, func(i int) (err error) {
		fresh[i], err = newNode(len(shared.nodes)+i, shared.backend)
		return err
	})
	if err != nil {
		return nil, err
	}
	shared.nodes = append(shared.nodes, fresh...)
	// All of them, not only the first n: a dead or frozen spare would disturb
	// its neighbours' measurements and outlive its test.
	err = each(len(shared.nodes), func(i int) error { return shared.nodes[i].reset() })
	return Nodes(shared.nodes[:n:n]), err
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
