package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"testing"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

func TestEveryPeerLocksExcludesAndUnlocks(t *testing.T) {
	b := tinyBench(t)
	for _, c := range b.peers {
		if !long.Tests() && !representatives(c) {
			continue
		}
		for _, waiting := range []bool{false, true} {
			name := c.name + map[bool]string{true: ", waiting"}[waiting]
			t.Run(name, func(t *testing.T) {
				p, err := b.open(t.Context(), c, b.site(nodes), waiting)
				require.NoError(t, err)
				defer func() { assert.NoError(t, p.peer.close()) }()
				excludes(t, p.peer, "exclude/"+c.name)
			})
		}
	}
}

// representatives are the peers that are tested without REDLOCK_LONG.
var representatives = among(redlockDefault, redlockUnfenced, redsyncOnGoRedis, rueidislockOne, floor)

// excludes locks a name twice over, and tries to get it a second time meanwhile.
func excludes(t *testing.T, p peer, name string) {
	t.Helper()
	for range 2 {
		lock := lockFree(t, p, name)
		assertRefused(t, p, name)
		if e, ok := lock.(extender); ok {
			require.NoError(t, e.Extend(t.Context()))
			assertRefused(t, p, name)
		}
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

// lockFree locks a name that is free. Some peers fail at it on a busy machine, where
// their own time limits end: they are asked again.
func lockFree(t *testing.T, p peer, name string) held {
	t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		lock, err := p.lock(t.Context(), name)
		if err == nil {
			return lock
		}
		require.True(t, time.Now().Before(deadline), "the name is free: %v", err)
	}
}

func assertRefused(t *testing.T, p peer, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err := p.lock(ctx, name)
	assert.Error(t, err, "the lock is held")
}

func TestThisLibraryAndTheFloorExcludeEachOther(t *testing.T) {
	b := tinyBench(t)
	ours, err := b.open(t.Context(), redlockDefault, b.site(nodes), false)
	require.NoError(t, err)
	defer b.closeAll([]*opened{ours})
	bare, err := b.open(t.Context(), floor, b.site(nodes), false)
	require.NoError(t, err)
	defer b.closeAll([]*opened{bare})
	lease, err := ours.peer.lock(t.Context(), "same")
	require.NoError(t, err)
	assertRefused(t, bare.peer, "same") // so the floor sends what the library sends
	require.NoError(t, lease.Unlock(t.Context()))
}

// The targets are the benchmark's; this bound is looser.
func TestSoakThisLibraryIsFasterThanRedsyncOnRedigo(t *testing.T) {
	soakOnly(t)
	b := tinyBench(t)
	b.peers = []contender{redlockDefault, redsyncOnRedigo}
	peers := b.openAll(t.Context(), b.site(nodes), false, func(contender) bool { return true })
	defer b.closeAll(peers)
	setting := pairsSetting(nodes, manyGoroutines)
	b.drivePeers(t.Context(), "pairs", setting, peers, 3, load{
		goroutines: manyGoroutines, warmUp: 100 * time.Millisecond, length: 400 * time.Millisecond,
	})
	c := atLeast(1.5, "x").ofRatio(b.results, "pairs/s", cell{"pairs", redlockDefault.name, setting},
		cell{"pairs", redsyncOnRedigo.name, setting}, "pairs/s")
	t.Log(c.measured)
	assert.True(t, c.met, c.measured)
	assert.True(t, failureCheck(b.results, "pairs").met)
}

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
