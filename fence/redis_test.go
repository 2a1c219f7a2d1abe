package fence_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/test/embedded"
)

func TestSetRefusesAValueThatAGreaterTokenSet(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)

	require.NoError(t, fence.Set(t.Context(), conn, "leader", 33, "alice"))
	require.NoError(t, fence.Set(t.Context(), conn, "leader", 33, "alice again"), "one holder may write often")
	require.NoError(t, fence.Set(t.Context(), conn, "leader", 40, "bob"))

	err := fence.Set(t.Context(), conn, "leader", 39, "alice, late")
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &fence.StaleError{Resource: "leader", Token: 39, Highest: 40}, stale)
	require.Equal(t, "bob", server.HGet("leader", "value"))
	require.Equal(t, "40", server.HGet("leader", "fence"))

	require.NoError(t, fence.Set(t.Context(), conn, "other", 1, "x"), "each key has its own fence")
}

func TestSetComparesTheGreatestTokensExactly(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	const greatest = int64(1)<<53 - 1
	require.NoError(t, fence.Set(t.Context(), conn, "leader", greatest, "bob"))
	err := fence.Set(t.Context(), conn, "leader", greatest-1, "alice")
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, greatest, stale.Highest)
	require.NoError(t, fence.Set(t.Context(), conn, "leader", greatest, "bob"))
	require.Equal(t, fmt.Sprint(greatest), server.HGet("leader", "fence"))
}

func TestSetDoesNotAskTheServerWithoutAToken(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	for _, token := range []int64{0, -1} {
		require.ErrorIs(t, fence.Set(t.Context(), conn, "leader", token, "alice"), fence.ErrUnfenced)
	}
	require.Zero(t, server.CommandCount())
}

// recorder is a connection that records the names of commands.
type recorder struct {
	redis.ConnWithContext
	sent []string
}

func (r *recorder) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	r.sent = append(r.sent, command)
	return r.ConnWithContext.DoContext(ctx, command, args...)
}

func TestServersKnowTheScriptsByTheirHashes(t *testing.T) {
	conn := &recorder{ConnWithContext: dial(t, startServer(t)).(redis.ConnWithContext)}
	for range 2 {
		require.NoError(t, fence.Set(t.Context(), conn, "leader", 33, "alice"))
	}
	require.Equal(t, []string{"EVALSHA", "EVAL", "EVALSHA"}, conn.sent, "a changed set.lua has another sha1sum")
	conn.sent = nil
	for range 2 {
		_, err := fence.Get(t.Context(), conn, "leader", 33)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"EVALSHA", "EVAL", "EVALSHA"}, conn.sent, "a changed get.lua has another sha1sum")
}

func TestSetChangesNothingAtAKeyOfAnotherShape(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	require.NoError(t, server.Set("text", "old"))
	server.HSet("hash", "fence", "no number", "value", "old")

	err := fence.Set(t.Context(), conn, "text", 33, "new")
	require.ErrorContains(t, err, `fence: "text": `)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.Error(t, fence.Set(t.Context(), conn, "hash", 33, "new"))
	server.CheckGet(t, "text", "old")
	require.Equal(t, "old", server.HGet("hash", "value"))

	server.HSet("unfenced", "value", "old")
	require.NoError(t, fence.Set(t.Context(), conn, "unfenced", 33, "new"), "a value without a fence gets one")
}

func TestSetDoesNotAskTheServerWhenItsContextIsDone(t *testing.T) {
	server := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fence.Set(ctx, dial(t, server), "leader", 33, "alice"), context.Canceled)
	require.Zero(t, server.CommandCount())
}

func TestHighestTokenOfConcurrentWritersStays(t *testing.T) {
	server := startServer(t)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	defer pool.Close()
	var all sync.WaitGroup
	for token := int64(1); token <= 50; token++ {
		all.Go(func() {
			conn, err := pool.GetContext(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			if err := fence.Set(t.Context(), conn, "leader", token, token); err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	all.Wait()
	require.Equal(t, "50", server.HGet("leader", "value"))
}

func TestSetAndGetCompareBothTokens(t *testing.T) {
	const set, get, getForUpdate = "set", "get", "get for update"
	type step struct {
		access  string
		token   int64
		refused *fence.StaleError // nil: accepted
	}
	stale := func(token, highest int64, read bool) *fence.StaleError {
		return &fence.StaleError{Resource: "leader", Token: token, Highest: highest, Read: read}
	}
	for name, steps := range map[string][]step{
		"a reader has the token of the writer before it": {{set, 33, nil}, {get, 33, nil}, {get, 33, nil}},
		"a reader after a later writer":                  {{set, 34, nil}, {get, 33, stale(33, 34, false)}},
		"a writer after a reader with its token":         {{set, 33, nil}, {get, 33, nil}, {set, 33, stale(33, 33, true)}},
		"a writer after a later reader":                  {{set, 33, nil}, {get, 35, nil}, {set, 34, stale(34, 35, true)}},
		"a writer after a later reader and writer":       {{get, 33, nil}, {set, 35, nil}, {set, 32, stale(32, 35, false)}},
		"a writer and a holder after a later writer and its reader": {{set, 35, nil}, {get, 35, nil},
			{set, 34, stale(34, 35, true)}, {getForUpdate, 34, stale(34, 35, true)}},
		"a holder after a later reader and writer": {{get, 33, nil}, {set, 35, nil}, {getForUpdate, 32, stale(32, 35, false)}},
		"the next writer":                          {{get, 33, nil}, {set, 34, nil}, {get, 34, nil}, {set, 35, nil}},
		"an earlier reader hides no later one":     {{get, 35, nil}, {get, 33, nil}, {set, 34, stale(34, 35, true)}},
		"a refused reader counts for nothing":      {{set, 34, nil}, {get, 33, stale(33, 34, false)}, {set, 34, nil}},
		"a holder reads, then writes":              {{set, 33, nil}, {getForUpdate, 34, nil}, {set, 34, nil}},
		"a writer after a later holder has read":   {{set, 33, nil}, {getForUpdate, 34, nil}, {set, 33, stale(33, 34, false)}},
		"a reader after a later holder has read":   {{set, 33, nil}, {getForUpdate, 34, nil}, {get, 33, stale(33, 34, false)}},
		"a holder after a later writer":            {{set, 34, nil}, {getForUpdate, 33, stale(33, 34, false)}},
		"a holder after a reader with its token":   {{set, 33, nil}, {get, 34, nil}, {getForUpdate, 34, stale(34, 34, true)}},
		"the greatest tokens": {{set, 1<<53 - 3, nil}, {get, 1<<53 - 2, nil}, {set, 1<<53 - 2, stale(1<<53-2, 1<<53-2, true)},
			{set, 1<<53 - 1, nil}, {get, 1<<53 - 2, stale(1<<53-2, 1<<53-1, false)}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			conn := dial(t, server)
			server.HSet("leader", "value", "0")
			last := "0"
			for i, s := range steps {
				var value []byte
				var err error
				switch s.access {
				case set:
					err = fence.Set(t.Context(), conn, "leader", s.token, i+1)
				case get:
					value, err = fence.Get(t.Context(), conn, "leader", s.token)
				case getForUpdate:
					value, err = fence.GetForUpdate(t.Context(), conn, "leader", s.token)
				}
				if s.refused != nil {
					var got *fence.StaleError
					require.ErrorAs(t, err, &got, "step %d", i)
					require.Equal(t, s.refused, got, "step %d", i)
					require.Nil(t, value)
					continue
				}
				require.NoError(t, err, "step %d", i)
				if s.access == set {
					last = fmt.Sprint(i + 1)
				} else {
					require.Equal(t, last, string(value), "step %d", i)
				}
				require.Equal(t, last, server.HGet("leader", "value"))
			}
		})
	}
}

func TestGetRegistersAReadOfAMissingKey(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	for key, get := range map[string]func(context.Context, redis.Conn, string, int64) ([]byte, error){
		"read": fence.Get, "fence": fence.GetForUpdate,
	} {
		value, err := get(t.Context(), conn, key, 33)
		require.Nil(t, value)
		require.ErrorIs(t, err, redis.ErrNil)
		require.NotErrorIs(t, err, fence.ErrStale)
		require.ErrorContains(t, err, fmt.Sprintf("fence: %q: ", key))

		fields, err := server.HKeys(key)
		require.NoError(t, err)
		require.Equal(t, []string{key}, fields, "the field with the token, and no value")
		require.Equal(t, "33", server.HGet(key, key))
		require.ErrorIs(t, fence.Set(t.Context(), conn, key, 32, "late"), fence.ErrStale)
		require.NoError(t, fence.Set(t.Context(), conn, key, 34, ""))
		value, err = get(t.Context(), conn, key, 34)
		require.NoError(t, err, "an empty value is a value")
		require.Equal(t, []byte{}, value)
	}
}

func TestSetAndGetLeaveTheTTLAsItIs(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	require.NoError(t, fence.Set(t.Context(), conn, "leader", 33, "alice"))
	_, err := fence.Get(t.Context(), conn, "missing", 33)
	require.ErrorIs(t, err, redis.ErrNil)
	require.Zero(t, server.TTL("leader"))
	require.Zero(t, server.TTL("missing"))

	server.SetTTL("leader", time.Hour)
	_, err = fence.Get(t.Context(), conn, "leader", 34)
	require.NoError(t, err)
	require.NoError(t, fence.Set(t.Context(), conn, "leader", 35, "bob"))
	require.Equal(t, time.Hour, server.TTL("leader"))
}

func TestGetChangesNothingAtAKeyOfAnotherShape(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	require.NoError(t, server.Set("text", "old"))
	server.HSet("fence", "fence", "no number", "value", "old")
	server.HSet("read", "read", "no number", "value", "old")
	for _, key := range []string{"text", "fence", "read"} {
		before := server.Dump()
		_, err := fence.Get(t.Context(), conn, key, 33)
		require.ErrorContains(t, err, fmt.Sprintf("fence: %q: ", key))
		require.NotErrorIs(t, err, fence.ErrStale)
		require.Error(t, fence.Set(t.Context(), conn, key, 33, "new"))
		require.Equal(t, before, server.Dump())
	}
}

func TestGetDoesNotAskTheServerWithoutATokenOrWhenItsContextIsDone(t *testing.T) {
	server := startServer(t)
	conn := dial(t, server)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, get := range []func(context.Context, redis.Conn, string, int64) ([]byte, error){fence.Get, fence.GetForUpdate} {
		for _, token := range []int64{0, -1} {
			_, err := get(t.Context(), conn, "leader", token)
			require.ErrorIs(t, err, fence.ErrUnfenced)
			require.ErrorContains(t, err, fmt.Sprintf(`"leader": the read is not fenced: its token is %d`, token))
		}
		_, err := get(ended, conn, "leader", 33)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Zero(t, server.CommandCount())
}

// startServer starts a server that also runs scripts under GODEBUG=fips140=only.
func startServer(t *testing.T) (server *miniredis.Miniredis) {
	embedded.Exempt(func() { server = miniredis.RunT(t) })
	return server
}

func dial(t *testing.T, server *miniredis.Miniredis) redis.Conn {
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}
