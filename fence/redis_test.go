package fence_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

func TestSetRefusesAValueThatAGreaterTokenSet(t *testing.T) {
	server := miniredis.RunT(t)
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
	server := miniredis.RunT(t)
	conn := dial(t, server)
	const greatest = 1<<53 - 1
	require.NoError(t, fence.Set(t.Context(), conn, "leader", greatest, "bob"))
	err := fence.Set(t.Context(), conn, "leader", greatest-1, "alice")
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.EqualValues(t, greatest, stale.Highest)
	require.NoError(t, fence.Set(t.Context(), conn, "leader", greatest, "bob"))
	require.Equal(t, fmt.Sprint(greatest), server.HGet("leader", "fence"))
}

func TestSetDoesNotAskTheServerWithoutAToken(t *testing.T) {
	server := miniredis.RunT(t)
	conn := dial(t, server)
	for _, token := range []int64{0, -1} {
		require.ErrorIs(t, fence.Set(t.Context(), conn, "leader", token, "alice"), fence.ErrUnfenced)
	}
	require.Zero(t, server.CommandCount())
}

func TestSetChangesNothingAtAKeyOfAnotherShape(t *testing.T) {
	server := miniredis.RunT(t)
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
	server := miniredis.RunT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fence.Set(ctx, dial(t, server), "leader", 33, "alice"), context.Canceled)
	require.Zero(t, server.CommandCount())
}

func TestHighestTokenOfConcurrentWritersStays(t *testing.T) {
	server := miniredis.RunT(t)
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

func dial(t *testing.T, server *miniredis.Miniredis) redis.Conn {
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}
