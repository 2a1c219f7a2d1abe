package main

import (
	"crypto/sha1"
	"encoding/hex"
	"testing"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One of the two is redsync's own: what it answers, the other must.
func TestTheAdapterForRueidisAnswersAsTheOneForGoRedis(t *testing.T) {
	for adapter, connect := range map[string]connector{"go-redis": goredisPool, "rueidis": rueidisPool} {
		t.Run(adapter, func(t *testing.T) {
			pool, end, err := connect(needServers(t).addrs[0])
			require.NoError(t, err)
			defer func() { assert.NoError(t, end()) }()
			conn, err := pool.Get(t.Context())
			require.NoError(t, err)
			defer func() { assert.NoError(t, conn.Close()) }()
			key := "adapter/" + adapter
			answersOnKeys(t, conn, key)
			answersOnScripts(t, conn, key)
		})
	}
}

func answersOnKeys(t *testing.T, conn redsyncredis.Conn, key string) {
	t.Helper()
	gets := func(want string) {
		value, err := conn.Get(key)
		require.NoError(t, err)
		assert.Equal(t, want, value)
	}
	gets("")
	left, err := conn.PTTL(key)
	require.NoError(t, err)
	assert.Negative(t, left, "there is no such key")
	for _, value := range []string{"first", "second"} {
		set, err := conn.SetNX(key, value, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, value == "first", set)
	}
	gets("first")
	left, err = conn.PTTL(key)
	require.NoError(t, err)
	assert.InDelta(t, time.Minute, left, float64(10*time.Second))
	set, err := conn.Set(key, "third")
	require.NoError(t, err)
	assert.True(t, set)
	gets("third")
}

func answersOnScripts(t *testing.T, conn redsyncredis.Conn, key string) {
	t.Helper()
	for body, want := range map[string]any{
		`return redis.call("PEXPIRE", KEYS[1], ARGV[2])`:                       int64(1),
		`if redis.call("GET", KEYS[1]) == ARGV[1] then return -1 end return 0`: int64(-1),
		`return false`: nil,
	} {
		script := scriptOf(body + " -- new to the server: " + key)
		for range 2 {
			reply, err := conn.Eval(script, key, "third", 60_000)
			require.NoError(t, err, body)
			assert.Equal(t, want, reply, body)
		}
	}
	_, err := conn.Eval(scriptOf(`return redis.error_reply("REFUSED by the script")`), key)
	assert.ErrorContains(t, err, "REFUSED")

	loaded := scriptOf(`return ARGV[1] -- loaded`)
	want := loaded.Hash
	loaded.Hash = ""
	require.NoError(t, conn.ScriptLoad(loaded))
	assert.Equal(t, want, loaded.Hash)
}

func scriptOf(source string) *redsyncredis.Script {
	sum := sha1.Sum([]byte(source))
	return redsyncredis.NewScript(1, source, hex.EncodeToString(sum[:]))
}
