// Package cluster runs real Redis servers for tests and breaks them on purpose:
// it kills, restarts, freezes and cuts them off, and loses their replies.
//
// The servers are Docker containers where an engine has the image, else redis-server
// processes; every fault works with both. REDLOCK_TEST_SERVERS names other
// programs to run as processes, such as Valkey's. The servers form a pool that all tests of
// a run share: Use lends servers to one test at a time, healthy and empty, and
// starts further ones where too few are idle. So tests may run in parallel.
package cluster

import (
	"errors"
	"flag"
	"fmt"
	"maps"
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
	backend  backend
	versions map[int]string // of each program, with the name that its server gives it
	nodes    Nodes          // all that were started
	lent     map[*Node]bool
	created  int // numbers handed out to nodes
}

// Main runs the tests and removes every server afterwards, also when the test
// process dies. Where no server can be started it says so, and runs none. TestMain calls it and
// exits with its result.
func Main(m *testing.M) int {
	if os.Getenv(reaperEnv) != "" {
		return runReaper(os.Stdin)
	}
	if _, err := useBackend(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	printServers()
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

// SetParallel sets how many tests run beside each other, unless -parallel is given. TestMain calls it after flag.Parse.
func SetParallel(n int) error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", fmt.Sprint(n))
}

// printServers prints one line for each program whose servers the tests used.
func printServers() {
	count := map[int]int{}
	for _, node := range shared.nodes {
		count[node.program]++
	}
	for _, program := range slices.Sorted(maps.Keys(count)) {
		fmt.Printf("servers: %d %s, %s\n", count[program], shared.backend.describe(program), shared.versions[program])
	}
}

// Use lends the test n running, reachable, empty masters until it ends. Where there are several
// programs, the nodes run them in turn.
//
// All changes to the nodes
// are undone before another test gets them. Changes that could disturb other tests are
// undone when the test ends: servers are thawed and healed, and a replica of another test's
// server becomes a master.
func Use(t testing.TB, n int) Nodes {
	t.Helper()
	return Kind{}.Use(t, n)
}

// Kind is a kind of cluster. The zero value is of all programs that there are, in turn.
type Kind struct {
	Name     string
	programs []int
}

// Kinds returns a kind for each server program that there is and, if there are several, one of all
// programs in turn.
func Kinds() ([]Kind, error) {
	b, err := useBackend()
	if err != nil {
		return nil, err
	}
	var kinds []Kind
	for program, name := range b.programs() {
		kinds = append(kinds, Kind{name, []int{program}})
	}
	if len(kinds) > 1 {
		kinds = append(kinds, Kind{Name: "mixed"})
	}
	return kinds, nil
}

// Use is the function Use for nodes of this kind.
func (k Kind) Use(t testing.TB, n int) Nodes {
	t.Helper()
	nodes, err := k.acquire(n)
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

// useBackend returns the backend, which the first call chooses.
func useBackend() (backend, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.backend == nil {
		b, err := chooseBackend()
		if err != nil {
			return nil, err
		}
		shared.backend, shared.lent, shared.versions = b, map[*Node]bool{}, map[int]string{}
	}
	return shared.backend, nil
}

// in returns the numbers of the programs of this kind.
func (k Kind) in(b backend) []int {
	if len(k.programs) > 0 {
		return k.programs
	}
	all := make([]int, len(b.programs()))
	for program := range all {
		all[program] = program
	}
	return all
}

// acquire returns n servers that no other test uses. With an error it returns those that it got
// nevertheless.
func (k Kind) acquire(n int) (Nodes, error) {
	b, err := useBackend()
	if err != nil {
		return nil, err
	}
	programs := k.in(b)
	nodes, first := reserve(n, programs), number(n)
	fresh := make(Nodes, n)
	err = each(n, func(i int) (err error) {
		if nodes[i] != nil {
			return nodes[i].reset()
		}
		fresh[i], err = newNode(first+i, programs[i%len(programs)], b)
		nodes[i] = fresh[i]
		return err
	})
	missing := func(n *Node) bool { return n == nil }
	return slices.DeleteFunc(nodes, missing), errors.Join(err, register(slices.DeleteFunc(fresh, missing)))
}

// reserve marks idle servers of these programs, in turn, as lent, the oldest first. The place of a
// server that must be started is nil.
func reserve(n int, programs []int) Nodes {
	shared.Lock()
	defer shared.Unlock()
	nodes := make(Nodes, n)
	for i := range nodes {
		for _, node := range shared.nodes {
			if node.program == programs[i%len(programs)] && !shared.lent[node] {
				shared.lent[node] = true
				nodes[i] = node
				break
			}
		}
	}
	return nodes
}

// number reserves numbers for n nodes, and returns the first.
func number(n int) int {
	shared.Lock()
	defer shared.Unlock()
	first := shared.created
	shared.created += n
	return first
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
	for _, node := range fresh {
		if shared.versions[node.program] != "" {
			continue
		}
		version, err := node.Version()
		if err != nil {
			return err
		}
		shared.versions[node.program] = version
	}
	return nil
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
