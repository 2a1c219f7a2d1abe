package integration

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// All servers lose their memory at once, and a quorum of them comes back.

// cronOnEmptyServers kills all servers and starts all but a minority of them. Runs of cron get locks again, by the servers
// that forgot. The others are admitted when they are back.
func cronOnEmptyServers(t *testing.T, nodes cluster.Nodes, draw *rand.Rand, took *durations) {
	run := func() bool {
		code, log, _ := runJobOnce(t, nodes)
		require.Contains(t, []int{0, 69}, code, log)
		return code == 0
	}
	require.True(t, eventually(soon, run))
	order := draw.Perm(len(nodes))
	back := nodes.Pick(order[:len(nodes)/2+1]...)
	nodes.Kill(t)
	back.Start(t)
	began := time.Now()
	require.True(t, eventually(time.Minute, run))
	took.add(time.Since(began))
	assert.Equal(t, len(back), countAdmitted(t, back))
	nodes.Start(t)
	require.True(t, eventually(soon, func() bool { return run() && countAdmitted(t, nodes) == len(nodes) }), "the others are not admitted")
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

func TestCronGoesOnByAQuorumOfEmptyServers(t *testing.T) {
	t.Parallel()
	inClusters(t, 2, "until a run gets its lock", cronOnEmptyServers)
}

func TestSoakCronGoesOnByAQuorumOfEmptyServers(t *testing.T) {
	soakOnly(t)
	inClusters(t, 50, "until a run gets its lock", cronOnEmptyServers)
}
