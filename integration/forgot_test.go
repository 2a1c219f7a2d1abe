package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// All servers stop at once, and a quorum of them comes back.

// cronOnAQuorum kills all servers and starts all but a minority of them. Those that kept the list of masters on disk go
// on: runs of cron get locks again, and the others are admitted when they are back. Empty ones wait until all are back.
func cronOnAQuorum(t *testing.T, nodes cluster.Nodes, draw *rand.Rand, took *durations) {
	run := func() bool {
		code, log, _ := runJobOnce(t, nodes)
		require.Contains(t, []int{0, 69}, code, log)
		return code == 0
	}
	order := draw.Perm(len(nodes))
	back := nodes.Pick(order[:len(nodes)/2+1]...)
	allVote := func() bool { return run() && countAdmitted(t, nodes) == len(nodes) }
	require.True(t, eventually(soon, allVote))
	for _, n := range nodes {
		n.Save(t)
	}
	nodes.Kill(t)
	back.Start(t)
	began := time.Now()
	require.True(t, eventually(time.Minute, run))
	took.add(time.Since(began))
	assert.Equal(t, len(back), countAdmitted(t, back))
	nodes.Start(t)
	require.True(t, eventually(soon, allVote), "the others are not admitted")

	nodes.Kill(t)
	back.Start(t)
	run()
	require.False(t, eventually(2*replaceTTL, run), "nothing shows that they were masters of this list")
	nodes.Start(t)
	require.True(t, eventually(time.Minute, allVote), "the empty ones do not begin")
}

// countAdmitted returns how many servers have a record of an admission.
func countAdmitted(t *testing.T, nodes cluster.Nodes) (count int) {
	t.Helper()
	for _, n := range nodes {
		if admitted(t, n) {
			count++
		}
	}
	return count
}

func TestCronGoesOnByAQuorumThatRemembersTheList(t *testing.T) {
	t.Parallel()
	inClusters(t, 2, "until a run gets its lock", cronOnAQuorum)
}

func TestSoakCronGoesOnByAQuorumThatRemembersTheList(t *testing.T) {
	soakOnly(t)
	inClusters(t, 50, "until a run gets its lock", cronOnAQuorum)
}

// Servers without a record, and clients that live for less than a second: `redlock run` from cron.

// jobArgs are such a run's. On servers that no client has seen vote, the ttl is the guard. The node timeout is as
// long as the ttl allows, since the machine may be busy.
var jobArgs = []string{"run", "job", "--ttl", replaceTTL.String(), "--node-timeout", "900ms", "--no-wait", "--", "true"}

// runJobOnce is a run of cron. It returns the exit code, what the tool wrote and how long it took.
func runJobOnce(t *testing.T, nodes cluster.Nodes) (code int, log string, took time.Duration) {
	t.Helper()
	took = timed(func() {
		code, _, log = callTool(t, nodes.URLs(), jobArgs...)
	})
	return code, log, took
}

// durations are times of several clusters.
type durations struct {
	mu  sync.Mutex // protects all
	all []time.Duration
}

func (d *durations) add(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, took)
}

// String has the number of times, the median and the longest.
func (d *durations) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return "none"
	}
	slices.Sort(d.all)
	return fmt.Sprintf("%d, median %v, longest %v", len(d.all),
		d.all[len(d.all)/2].Round(time.Millisecond), d.all[len(d.all)-1].Round(time.Millisecond))
}

// inClusters runs a test on so many clusters of three and of five servers, some at a time, and logs what it adds to took.
func inClusters(t *testing.T, clusters int, what string, test func(t *testing.T, nodes cluster.Nodes, draw *rand.Rand, took *durations)) {
	_, err := buildTool() // here: it may take longer than a test waits
	require.NoError(t, err)
	for _, n := range []int{3, 5} {
		var took durations
		t.Cleanup(func() { t.Logf("%d clusters of %d servers; %s: %v", clusters, n, what, &took) })
		for i := range clusters {
			t.Run(fmt.Sprintf("%d servers, cluster %d", n, i), func(t *testing.T) {
				t.Parallel()
				test(t, cluster.Use(t, n), rand.New(rand.NewPCG(uint64(n), uint64(i))), &took)
			})
		}
	}
}

// runJobAtOnce is a run of cron on so many machines. One gets the lock, or several, one after the other.
func runJobAtOnce(t *testing.T, nodes cluster.Nodes, machines int, took *durations) {
	t.Helper()
	codes := make([]int, machines)
	var all sync.WaitGroup
	for i := range machines {
		all.Go(func() {
			code, log, duration := runJobOnce(t, nodes)
			codes[i] = code
			took.add(duration)
			assert.Contains(t, []int{0, 75}, code, log)
		})
	}
	all.Wait()
	assert.Contains(t, codes, 0)
}

// oneRunAfterTheGuard has cron run the job on new servers, on one machine or several. The first run that begins after the
// guard is over gets its lock, and admits all servers before it ends.
func oneRunAfterTheGuard(t *testing.T, nodes cluster.Nodes, draw *rand.Rand, took *durations) {
	code, log, _ := runJobOnce(t, nodes)
	require.Equal(t, 69, code, log)
	for range draw.IntN(3) { // in the guard
		code, log, _ := runJobOnce(t, nodes)
		require.Contains(t, []int{0, 69}, code, log)
	}
	require.True(t, eventually(soon, func() bool { return countQuarantines(t, nodes) == 0 }), "the guard does not end")
	time.Sleep(time.Duration(draw.Int64N(int64(300 * time.Millisecond))))
	runJobAtOnce(t, nodes, 1+draw.IntN(3), took)
	for i, n := range nodes {
		assert.True(t, admitted(t, n), "server %d has no record", i)
	}
	// A minority dies: the rest is a quorum with records.
	for _, i := range draw.Perm(len(nodes))[:(len(nodes)-1)/2] {
		nodes[i : i+1].Kill(t)
	}
	code, log, _ = runJobOnce(t, nodes)
	assert.Zero(t, code, log)
}

// countQuarantines returns how many servers are in quarantine.
func countQuarantines(t *testing.T, nodes cluster.Nodes) (count int) {
	t.Helper()
	for _, n := range nodes {
		if n.Do(t, "EXISTS", "redlock::guard:"+n.RunID(t)) == int64(1) {
			count++
		}
	}
	return count
}

func TestOneRunAfterTheGuardAdmitsAllServers(t *testing.T) {
	t.Parallel()
	inClusters(t, 3, "a run after the guard", oneRunAfterTheGuard)
}

func TestSoakOneRunAfterTheGuardAdmitsAllServers(t *testing.T) {
	soakOnly(t)
	inClusters(t, 50, "a run after the guard", oneRunAfterTheGuard)
}
