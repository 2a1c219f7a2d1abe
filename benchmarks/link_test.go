package main

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALinkDelaysARoundTripByWhatItSays(t *testing.T) {
	s := needServers(t)
	for _, rtt := range milliseconds(0, 5, 40) {
		l, err := openLink(s.addrs[0], rtt)
		require.NoError(t, err)
		took, err := roundTrip(t.Context(), l.addr, 9)
		require.NoError(t, err)
		t.Logf("%v: %v", rtt, took)
		assert.GreaterOrEqual(t, took, rtt)
		assert.Less(t, took, soon)
		l.close()
	}
}

func TestTheLimitIsTheKthFastestNode(t *testing.T) {
	links, err := openLinks(needServers(t).addrs[:3], 2*soon, 0, 30*time.Millisecond)
	require.NoError(t, err)
	defer closeLinks(links)
	limit, err := kthFastest(t.Context(), links, 2, 3)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, limit, 30*time.Millisecond)
	assert.Less(t, limit, soon, "it is not the slowest one's")
	_, err = kthFastest(t.Context(), links[:1], 2, 1)
	assert.Error(t, err, "one node is no majority of three")
}

func TestALinkFreezesDiesAndComesBack(t *testing.T) {
	l, err := openLink(needServers(t).addrs[0], 0)
	require.NoError(t, err)
	defer l.close()
	const briefly = 50 * time.Millisecond // where no answer comes
	ping := func(limit time.Duration) error {
		conn, err := redis.Dial("tcp", l.addr, redis.DialReadTimeout(limit))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Do("PING")
		return err
	}
	require.NoError(t, ping(soon))
	for _, fault := range []string{frozen, dead} {
		restore, err := inflict(l, fault)
		require.NoError(t, err)
		err = ping(briefly)
		require.Error(t, err, fault)
		silent, ok := err.(net.Error)
		assert.Equal(t, fault == frozen, ok && silent.Timeout(), "%s: %v", fault, err)
		restore()
		assert.NoError(t, ping(soon), fault)
	}
	restore, err := inflict(l, flapping)
	require.NoError(t, err)
	isFrozen := func() bool { return ping(briefly) != nil }
	assert.Eventually(t, isFrozen, soon, time.Millisecond, "it is frozen now and then")
	restore()
	assert.NoError(t, ping(soon))
	_, err = inflict(l, "nonsense")
	assert.Error(t, err)
}

func TestALinkCountsCommandsThatClientsSend(t *testing.T) {
	l, err := openLink(needServers(t).addrs[0], 0)
	require.NoError(t, err)
	defer l.close()
	conn, err := redis.Dial("tcp", l.addr)
	require.NoError(t, err)
	defer conn.Close()
	for range 3 {
		_, err := conn.Do("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "counted")
		require.NoError(t, err)
	}
	_, err = conn.Do("PING")
	require.NoError(t, err)
	assert.EqualValues(t, 4, l.commands.Load(), "what a script calls does not count")
}

func TestCommandsAreCountedHoweverTheyAreCut(t *testing.T) {
	var bytes []byte
	for i := range 5 {
		bytes = appendCommand(bytes, "SET", fmt.Sprint(i), "*1\r\n$4\r\n\r\n")
	}
	for size := 1; size <= len(bytes); size++ {
		var n atomic.Int64
		c := commandCounter{total: &n}
		for at := 0; at < len(bytes); at += size {
			c.read(bytes[at:min(at+size, len(bytes))])
		}
		require.EqualValues(t, 5, n.Load(), "in pieces of %d bytes", size)
		require.NoError(t, c.err)
	}
}
