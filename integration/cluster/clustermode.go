package cluster

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// UseInClusterMode starts n servers of this kind in cluster mode, and removes them when the test
// ends. Each is a Redis Cluster of one server, which serves all slots. They are not of the pool, since
// a server cannot leave cluster mode.
func (k Kind) UseInClusterMode(t testing.TB, n int) Nodes {
	t.Helper()
	b, err := useBackend()
	require.NoError(t, err)
	nodes, programs, first := make(Nodes, n), k.in(b), number(n)
	t.Cleanup(func() {
		for _, node := range nodes {
			if node != nil {
				assert.NoError(t, node.remove())
			}
		}
	})
	require.NoError(t, each(n, func(i int) (err error) {
		nodes[i], err = newNode(first+i, programs[i%len(programs)], b, "cluster-enabled yes",
			"cluster-node-timeout 500") // for so long it does not serve after it got its slots
		return err
	}))
	slots := []any{"ADDSLOTS"}
	for slot := range 1 << 14 {
		slots = append(slots, slot)
	}
	for _, node := range nodes {
		node.Do(t, "CLUSTER", slots...)
	}
	for _, node := range nodes {
		require.True(t, Eventually(startTimeout, func() bool {
			info, err := redis.String(node.Do(t, "CLUSTER", "INFO"), nil)
			return err == nil && strings.Contains(info, "cluster_state:ok")
		}), "node %d does not serve its slots", node.index)
	}
	return nodes
}
