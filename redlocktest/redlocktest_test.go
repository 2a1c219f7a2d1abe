package redlocktest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestEveryNodeIsAServerOfItsOwn(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	require.Len(t, nodes.URLs(), 3)

	for i, url := range nodes.URLs() {
		do(t, url, "SET", "index", i)
	}
	for i := range nodes.URLs() {
		value, ok := nodes.Get(i, "index")
		assert.True(t, ok)
		assert.Equal(t, fmt.Sprint(i), value)
		assert.Equal(t, []string{"index"}, nodes.Keys(i))
	}
}

func TestNodesHaveTheirRoleAndDistinctRunIDs(t *testing.T) {
	nodes := redlocktest.Start(t, 2)
	first, second := info(t, nodes.URLs()[0]), info(t, nodes.URLs()[1])
	assert.Contains(t, first, "role:master\r\n")
	assert.Contains(t, first, "maxmemory_policy:noeviction\r\n")
	assert.Contains(t, first, "run_id:")
	assert.NotEqual(t, first, second)
}

func TestKeysExpireWithTheClock(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	do(t, nodes.URLs()[0], "SET", "short", "x")
	_, ok := nodes.Get(0, "short")
	require.True(t, ok)

	do(t, nodes.URLs()[0], "PEXPIRE", "short", 30)
	assert.Eventually(t, func() bool {
		_, ok := nodes.Get(0, "short")
		return !ok && len(nodes.Keys(0)) == 0
	}, 5*time.Second, 5*time.Millisecond)
}

func TestGetReturnsFalseForAKeyThatIsNoString(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	do(t, nodes.URLs()[0], "HSET", "hash", "field", "x")

	_, ok := nodes.Get(0, "hash")
	assert.False(t, ok)
	_, ok = nodes.Get(0, "missing")
	assert.False(t, ok)
}

func TestAStoppedNodeBreaksItsConnectionsAndRefusesNewOnes(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	conn := dial(t, nodes.URLs()[0])
	nodes.Stop(0)
	nodes.Stop(0)

	_, err := conn.Do("PING")
	assert.Error(t, err)
	_, err = redis.DialURL(nodes.URLs()[0])
	assert.Error(t, err)
}

func TestAStartedNodeIsBackAtItsAddressWithItsKeys(t *testing.T) {
	nodes := redlocktest.Start(t, 2)
	url := nodes.URLs()[0]
	do(t, url, "SET", "kept", "x")
	before := info(t, url)

	nodes.Stop(0)
	assert.Equal(t, []string{"kept"}, nodes.Keys(0), "a stopped node can be read")
	require.NoError(t, nodes.Start(0))
	require.NoError(t, nodes.Start(0), "starting a running node does nothing")

	assert.Equal(t, url, nodes.URLs()[0])
	assert.Equal(t, []byte("x"), do(t, url, "GET", "kept"))
	assert.NotEqual(t, before, info(t, url), "a restarted server has a new run_id")
}

func TestAStartedNodeHasForgottenItsScripts(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	url := nodes.URLs()[0]
	sha := do(t, url, "SCRIPT", "LOAD", "return 1")
	require.Equal(t, int64(1), do(t, url, "EVALSHA", sha, 0))

	nodes.Stop(0)
	require.NoError(t, nodes.Start(0))

	_, err := dial(t, url).Do("EVALSHA", sha, 0)
	assert.ErrorContains(t, err, "NOSCRIPT")
}

func TestAWipedNodeHasForgottenItsKeys(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	do(t, nodes.URLs()[0], "SET", "forgotten", "x")

	nodes.Stop(0)
	nodes.Wipe(0)
	require.NoError(t, nodes.Start(0))

	assert.Empty(t, nodes.Keys(0))
	assert.Nil(t, do(t, nodes.URLs()[0], "GET", "forgotten"))
}

func TestStartNamesTheNodeWhoseAddressIsTaken(t *testing.T) {
	nodes := redlocktest.Start(t, 2)
	nodes.Stop(1)
	squatter := listen(t, strings.TrimPrefix(nodes.URLs()[1], "redis://"))

	assert.ErrorContains(t, nodes.Start(1), "redlocktest: node 1: ")
	squatter.Close()
	assert.NoError(t, nodes.Start(1))
}

func TestFewerNodesThanOneAreRefused(t *testing.T) {
	for _, n := range []int{0, -1} {
		_, err := redlocktest.New(n)
		assert.EqualError(t, err, fmt.Sprintf("redlocktest: %d nodes asked for, need at least 1", n))
	}
}

func TestStartFailsTheTestThatAsksForNoNodes(t *testing.T) {
	fake := &fakeTB{}
	var over sync.WaitGroup
	over.Go(func() { redlocktest.Start(fake, 0) })
	over.Wait()
	assert.Equal(t, "redlocktest: 0 nodes asked for, need at least 1", fake.failure)
	assert.Empty(t, fake.cleanups)
}

func TestStartStopsTheNodesWithTheTest(t *testing.T) {
	fake := &fakeTB{}
	nodes := redlocktest.Start(fake, 1)
	dial(t, nodes.URLs()[0])
	for _, cleanup := range fake.cleanups {
		cleanup()
	}
	_, err := redis.DialURL(nodes.URLs()[0])
	assert.Error(t, err)
}

func TestNodesCanBeReadStoppedAndStartedAtTheSameTime(t *testing.T) {
	nodes := redlocktest.Start(t, 2)
	var over sync.WaitGroup
	for i := range 2 {
		for range 10 {
			over.Go(func() { nodes.Stop(i) })
			over.Go(func() { assert.NoError(t, nodes.Start(i)) })
			over.Go(func() { nodes.Get(i, "key"); nodes.Keys(i); nodes.Wipe(i) })
			over.Go(func() {
				if conn, err := redis.DialURL(nodes.URLs()[i]); err == nil {
					conn.Do("SET", "key", "x")
					conn.Close()
				}
			})
		}
	}
	over.Wait()
}

func TestClosedNodesLeaveNoGoroutineBehind(t *testing.T) {
	nodes, err := redlocktest.New(3)
	require.NoError(t, err)
	for _, url := range nodes.URLs() {
		do(t, url, "PING")
	}
	nodes.Stop(1)
	nodes.Close()
	nodes.Close()
	assert.Eventually(t, func() bool { return !strings.Contains(stacks(), "miniredis") },
		5*time.Second, 5*time.Millisecond, "a goroutine of a node is still there")
}

// stacks returns the stacks of all goroutines of the process.
func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

func TestKilledConnectionExecutesNothingMore(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	killer, victim := dial(t, nodes.URLs()[0]), dial(t, nodes.URLs()[0])
	id, err := redis.Int(victim.Do("CLIENT", "ID"))
	require.NoError(t, err)
	again, err := redis.Int(victim.Do("CLIENT", "ID"))
	require.NoError(t, err)
	require.Equal(t, id, again)
	killed, err := redis.Int(killer.Do("CLIENT", "KILL", "ID", id+1))
	require.NoError(t, err)
	require.Zero(t, killed, "no connection has this id")
	killed, err = redis.Int(killer.Do("CLIENT", "KILL", "ID", id))
	require.NoError(t, err)
	require.Equal(t, 1, killed)
	_, err = victim.Do("SET", "late", "1")
	require.Error(t, err)
	_, found := nodes.Get(0, "late")
	require.False(t, found)
}
