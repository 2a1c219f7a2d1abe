package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Other leases, and keys that dead clients left, take slots at some of the nodes. Callers that ask one
// after the other get those that a quorum has free.
func TestCallersGetThePermitsThatAQuorumHasFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		size, n int
		taken   map[int][]int // nodes, by slot
		away    bool          // node 1
		slots   []int         // that each caller gets
	}{
		{"two permits have a quorum each", 3, 1, map[int][]int{0: {0, 1}, 1: {1, 2}}, false, []int{2}},
		{"one pair of six is free at both nodes", 6, 2, map[int][]int{0: {0, 1, 2}, 3: {0, 1, 2}, 1: {1, 2}, 4: {1, 2}}, true, []int{2, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 3)
			client := openClient(t, nodes.URLs())
			awaitAllVotes(t, client, nodes)
			for slot, at := range c.taken {
				for _, i := range at {
					nodes[i].Do(t, "SET", fmt.Sprintf("redlock:x#%d", slot), "of another lease", "PX", 600_000)
				}
			}
			if c.away {
				nodes[1].Kill(t)
			}
			var longest time.Duration
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				began := time.Now()
				lease, err := client.Semaphore("x", c.size).Acquire(ctx, c.n)
				cancel()
				require.NoError(t, err, "caller %d", i)
				longest = max(longest, time.Since(began))
				slots := lease.Slots()
				slices.Sort(slots)
				require.Equal(t, c.slots, slots)
				require.NoError(t, lease.Unlock(t.Context()))
			}
			t.Logf("20 of 20 callers; the longest waited for %v", longest)
		})
	}
}

// The numbers are those of TestOrderOfSlotsIsThatOfItsSeed in internal/lock.
func TestServersTrySlotsInTheOrderOfTheSeed(t *testing.T) {
	t.Parallel()
	conn := connect(t, cluster.Use(t, 1)[0].Addr())
	for seed, order := range map[uint32][]int{
		0:          {2, 3, 8, 7, 6, 0, 1, 5, 9, 4},
		1:          {2, 4, 6, 7, 1, 0, 9, 8, 3, 5},
		2147483648: {7, 8, 4, 2, 9, 5, 3, 0, 1, 6},
		4294967295: {2, 0, 3, 7, 8, 9, 5, 6, 1, 4},
	} {
		reply, err := redis.Ints(conn.Do("EVAL", protocol.Permit.Text(), 1, "queue", "me", 10_000, "", 1, "", "", "x#", 10, 10, int64(seed)))
		require.NoError(t, err)
		assert.Equal(t, append([]int{1}, order...), reply, "seed %d", seed)
	}
}
