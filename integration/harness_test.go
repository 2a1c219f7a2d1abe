package integration

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// The tests in this file are about the test cluster: its faults must be real, or the other
// tests would show nothing.

func TestFrozenServerHoldsItsAnswersBackUntilThawed(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.Addr())
	node.Freeze(t)
	assertAnswer := assertSilent(t, c, "SET", "k", "v")
	node.Thaw(t)
	assertAnswer("OK")
}

func TestKilledServerRefusesConnectionsAndReturnsEmptyUnderItsAddress(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	node.Do(t, "SET", "k", "v")
	addr := node.Addr()
	node.Kill(t)
	_, err := net.DialTimeout("tcp", addr, time.Second)
	require.Error(t, err)
	node.Start(t)
	require.Equal(t, addr, node.Addr())
	require.Empty(t, node.Keys(t))
}

func TestRestartLosesTheDataUnlessSaved(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	node.Do(t, "SET", "k", "v")
	node.Save(t)
	node.Restart(t)
	require.Equal(t, "v", node.Get(t, "k"))
	node.Restart(t)
	require.Empty(t, node.Keys(t))
}

func TestLoadingServerSaysSoUntilItHasLoaded(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	node.RestartLoading(t, 20*time.Second)
	c := connect(t, node.Addr())
	_, err := c.Do("GET", "k")
	require.ErrorContains(t, err, "LOADING")
	node.FinishLoading(t)
	_, err = connect(t, node.Addr()).Do("GET", "k")
	require.NoError(t, err)
}

func TestCutHoldsBytesAndNewConnectionsUntilHealed(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.Cut()
	assertAnswer := assertSilent(t, c, "SET", "k", "v")
	require.Empty(t, node.Keys(t))
	assertFreshAnswer := assertSilent(t, connect(t, node.ProxyAddr()), "SET", "l", "w")
	node.Heal()
	assertAnswer("OK")
	assertFreshAnswer("OK")
	require.Equal(t, []string{"k", "l"}, node.Keys(t))
}

func TestBytesSentIntoACutArriveAlsoWhenTheClientIsGoneBeforeItHeals(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.Cut()
	require.NoError(t, c.Send("SET", "k", "v"))
	require.NoError(t, c.Flush())
	require.NoError(t, c.Close())
	node.Heal()
	require.True(t, eventually(soon, func() bool { return node.Get(t, "k") == "v" }))
}

func TestHeldRepliesAreExecutedRequests(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.HoldReplies()
	assertAnswer := assertSilent(t, c, "SET", "k", "v")
	require.True(t, eventually(soon, func() bool { return node.Get(t, "k") == "v" }))
	node.Heal()
	assertAnswer("OK")
}

func TestLostReplyBreaksTheConnectionOfAnExecutedRequestOnce(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.LoseReply()
	_, err := c.Do("SET", "k", "v")
	require.Error(t, err)
	require.Equal(t, "v", node.Get(t, "k"))
	_, err = connect(t, node.ProxyAddr()).Do("PING")
	require.NoError(t, err)
}

func TestResetBreaksStandingConnectionsOnly(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	_, err := c.Do("PING")
	require.NoError(t, err)
	node.Reset()
	_, err = c.Do("PING")
	require.Error(t, err)
	_, err = connect(t, node.ProxyAddr()).Do("PING")
	require.NoError(t, err)
}

func TestStrandedConnectionIsHeldWhileNewOnesGetThrough(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	old := connect(t, node.ProxyAddr())
	_, err := old.Do("PING")
	require.NoError(t, err)
	node.Strand()
	assertAnswer := assertSilent(t, old, "SET", "k", "v")
	_, err = connect(t, node.ProxyAddr()).Do("PING")
	require.NoError(t, err)
	require.Empty(t, node.Keys(t))
	node.Heal()
	assertAnswer("OK")
	require.Equal(t, "v", node.Get(t, "k"))
}

func TestGarbledAnswersAreExecutedRequests(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.Garble("HTTP/1.1 400 Bad Request\r\n\r\n")
	_, err := c.Do("SET", "k", "v")
	require.Error(t, err)
	require.Equal(t, "v", node.Get(t, "k"))
}

func TestDelayIsAddedInEachDirection(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	c := connect(t, node.ProxyAddr())
	node.Delay(20 * time.Millisecond)
	start := time.Now()
	_, err := c.Do("PING")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 40*time.Millisecond)
}

func TestSharedServersAreHandedOnHealthyAndEmpty(t *testing.T) {
	var addr string
	t.Run("a test that breaks everything", func(t *testing.T) {
		nodes := cluster.Use(t, 3)
		addr = nodes[2].Addr()
		nodes[0].Do(t, "SET", "k", "v")
		nodes[0].SetConfig(t, "maxmemory", "1mb")
		nodes[0].Do(t, "ACL", "SETUSER", "default", "off")
		nodes[0].Freeze(t)
		nodes[1].FollowOther(t, nodes[2])
		nodes[1].Cut()
		nodes[2].Kill(t)
	})
	nodes := cluster.Use(t, 3)
	require.Equal(t, addr, nodes[2].Addr())
	for _, node := range nodes {
		c := connect(t, node.ProxyAddr())
		role, err := redis.Values(c.Do("ROLE"))
		require.NoError(t, err)
		assert.Equal(t, []byte("master"), role[0])
		limit, err := redis.StringMap(c.Do("CONFIG", "GET", "maxmemory"))
		require.NoError(t, err)
		assert.Equal(t, "0", limit["maxmemory"])
		assert.Empty(t, node.Keys(t))
	}
}

func TestServerThatEndedByItselfIsStartedAgain(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)[0]
	before := node.RunID(t)
	_, err := connect(t, node.Addr()).Do("SHUTDOWN", "NOSAVE")
	require.Error(t, err, "it ends without an answer")
	require.True(t, eventually(soon, node.Ended))
	node.Start(t)
	require.NotEqual(t, before, node.RunID(t))
}

// connect opens a connection whose reads wait for some seconds.
func connect(t *testing.T, addr string) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", addr, redis.DialReadTimeout(soon), redis.DialConnectTimeout(soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// assertSilent sends a command and expects no answer for a while. What it returns
// waits for the answer and compares it.
func assertSilent(t *testing.T, c redis.Conn, cmd string, args ...any) (assertAnswer func(want any)) {
	t.Helper()
	type answer struct {
		reply any
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		reply, err := c.Do(cmd, args...)
		answered <- answer{reply, err}
	}()
	select {
	case a := <-answered:
		require.FailNow(t, "answered", "%v, %v", a.reply, a.err)
	case <-time.After(150 * time.Millisecond):
	}
	return func(want any) {
		t.Helper()
		a := <-answered
		require.NoError(t, a.err)
		require.Equal(t, want, a.reply)
	}
}
