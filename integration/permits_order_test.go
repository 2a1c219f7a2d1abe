package integration

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

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
