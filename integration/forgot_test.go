package integration

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// All servers lose their memory at once, and a quorum of them comes back.

// quorumOfEmptyServers kills all servers and starts all but a minority of them, at once or one after the other. Clients
// that were connected before get locks again, by the servers that forgot. The others are admitted when they are back.
func quorumOfEmptyServers(t *testing.T, nodes cluster.Nodes, draw *rand.Rand, took *durations) {
	clients := []*redlock.Client{openGuarded(t, nodes.URLs()),
		openGuarded(t, nodes.URLs(), redlock.WithTTL(time.Duration(2+draw.IntN(2))*time.Second))}
	before := tokenWithin(t, clients[0], soon)
	require.True(t, eventually(soon, func() bool { return countAdmitted(t, nodes) == len(nodes) }))
	order := draw.Perm(len(nodes))
	back, away := nodes.Pick(order[:len(nodes)/2+1]...), nodes.Pick(order[len(nodes)/2+1:]...)
	nodes.Kill(t)
	time.Sleep(time.Duration(draw.Int64N(int64(2 * time.Second))))
	apart := time.Duration(draw.IntN(2)) * time.Second
	for i := range back {
		back[i : i+1].Start(t)
		time.Sleep(time.Duration(draw.Int64N(int64(apart + 1))))
	}
	began := time.Now()
	token := tokenWithin(t, clients[draw.IntN(2)], time.Minute)
	took.add(time.Since(began))
	assert.Greater(t, token, before)
	assert.Equal(t, len(back), countAdmitted(t, back))

	away.Start(t)
	require.True(t, eventually(soon, func() bool { return countAdmitted(t, nodes) == len(nodes) }), "the others are not admitted")
	back[:len(away)].Kill(t)
	assert.Greater(t, tokenWithin(t, clients[draw.IntN(2)], soon), token)
}

// cronOnEmptyServers is quorumOfEmptyServers with no clients but runs of cron.
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

// tokenWithin locks and unlocks.
func tokenWithin(t *testing.T, client *redlock.Client, limit time.Duration) int64 {
	t.Helper()
	lease, err := client.Mutex("name").Lock(within(t, limit))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	return lease.Token()
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

func TestQuorumOfEmptyServersServesWithoutTheOthers(t *testing.T) {
	t.Parallel()
	notInShort(t)
	inClusters(t, 2, "until a lock is granted", quorumOfEmptyServers)
}

func TestCronGoesOnByAQuorumOfEmptyServers(t *testing.T) {
	t.Parallel()
	inClusters(t, 2, "until a run gets its lock", cronOnEmptyServers)
}

func TestSoakQuorumOfEmptyServersServesWithoutTheOthers(t *testing.T) {
	soakOnly(t)
	inClusters(t, 50, "until a lock is granted", quorumOfEmptyServers)
}

func TestSoakCronGoesOnByAQuorumOfEmptyServers(t *testing.T) {
	soakOnly(t)
	inClusters(t, 50, "until a run gets its lock", cronOnEmptyServers)
}
