package integration

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// The server's own time, as it counts that: for one of ten permits and its release, and for a lock by
// script and its release. The arguments are those that the client sends.
func TestSoakServerTimeOfAPermitIsAtMost250PercentOfALocks(t *testing.T) {
	soakOnly(t)
	const limit, batches, pairs = 2.5, 40, 1000
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	conn := connect(t, nodes[0].Addr())
	defer conn.Close()
	loadScripts(t, conn, protocol.Permit, protocol.GiveBack, protocol.Acquire, protocol.Release)
	_, err := conn.Do("HSET", "record", "7", 1<<50, "8", 1<<50, "16", 1<<50)
	require.NoError(t, err)
	const lock, queue, base = "redlock:y", "redlock::slots:redlock:x", "redlock:x#"
	takeLock := []any{protocol.Acquire.SHA(), 2, lock, "record", "owner", 10_000, "7", 1, "1-A-1", "label", "", 0}
	release := []any{protocol.Release.SHA(), 3, lock, "redlock::queue:" + lock, "redlock::readers:" + lock, "owner"}
	// By the seed 0 the slots are tried in the order 2, 3, 8, 7, 6, 0, 1, 5, 9, 4.
	takePermit := []any{protocol.Permit.SHA(), 2, queue, "record", "owner", 10_000, "7", 1, "", "label", base, 10, 1, 0}
	giveBack := func(slot int) []any {
		return []any{protocol.GiveBack.SHA(), 1, queue, "owner", base, 10, slot}
	}
	// Other programs on the machine make a batch slower, never faster: the least time counts.
	permit, last, alone := math.Inf(1), math.Inf(1), math.Inf(1)
	for range batches {
		permit = min(permit, serverTime(t, conn, pairs, takePermit, giveBack(2)))
		alone = min(alone, serverTime(t, conn, pairs, takeLock, release))
		for _, slot := range []int{0, 1, 2, 3, 5, 6, 7, 8, 9} {
			_, err := conn.Do("SET", fmt.Sprint(base, slot), "another", "PX", 600_000)
			require.NoError(t, err)
		}
		last = min(last, serverTime(t, conn, pairs, takePermit, giveBack(4)))
		for _, slot := range []int{0, 1, 2, 3, 5, 6, 7, 8, 9} {
			_, err := conn.Do("DEL", fmt.Sprint(base, slot))
			require.NoError(t, err)
		}
	}
	t.Logf("a permit of ten and its release: %.1f µs; the last of ten, found at the end: %.1f µs; a lock by script and its release: %.1f µs", permit, last, alone)
	t.Logf("a permit takes %.2f times the server time of a lock, the last of ten %.2f times", permit/alone, last/alone)
	assert.LessOrEqual(t, permit/alone, limit)
}
