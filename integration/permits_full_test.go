package integration

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Callers that find all permits taken, behind others that wait, do not have the server look at each slot for
// each of them.
func TestWaitersBehindOthersDoNotHaveAllSlotsLookedAt(t *testing.T) {
	t.Parallel()
	const permits, waiters = 256, 200
	nodes := cluster.Use(t, 1)
	client := openClient(t, nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithTTL(time.Minute))
	s := client.Semaphore("full", permits)
	all, err := s.Acquire(t.Context(), permits)
	require.NoError(t, err)
	conn := connect(t, nodes[0].Addr())
	defer conn.Close()
	looks := func() int { return commandCalls(t, conn, "getrange") + commandCalls(t, conn, "pttl") }
	var calls sync.WaitGroup
	join := func(callers, queued int) {
		for range callers {
			calls.Go(func() {
				lease, err := s.Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					assert.NoError(t, lease.Unlock(context.Background()))
				}
			})
		}
		require.Eventually(t, func() bool {
			n, err := redis.Int(conn.Do("ZCARD", "redlock::slots:redlock:full"))
			return err == nil && n == queued
		}, 10*time.Second, 10*time.Millisecond)
	}
	join(1, 1)
	before := looks()
	join(waiters, waiters+1)
	after := looks()
	t.Logf("%d looks at slots for %d waiters", after-before, waiters)
	require.Less(t, after-before, waiters*permits/2)
	require.NoError(t, all.Unlock(t.Context()))
	calls.Wait()
}

// commandCalls returns how often the server has executed a command, also in scripts.
func commandCalls(t *testing.T, conn redis.Conn, command string) int {
	stats, err := redis.String(conn.Do("INFO", "commandstats"))
	require.NoError(t, err)
	found := regexp.MustCompile("cmdstat_" + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	calls, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return calls
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
		reply, err := redis.Ints(conn.Do("EVAL", protocol.Permit.Text(), 2, "queue", "record", "me", 10_000, "7", 1, "", "", "x#", 10, 10, int64(seed)))
		require.NoError(t, err)
		assert.Equal(t, order, reply[1:], "seed %d", seed)
	}
}
