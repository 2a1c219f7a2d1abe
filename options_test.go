package redlock

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func TestBadSettingsNameTheRelationTheyBreak(t *testing.T) {
	for want, opts := range map[string][]Option{
		"the ttl must be between 50ms and a year": {WithTTL(49 * time.Millisecond)},
		"WithTTL(-1s)":                                {WithTTL(-time.Second)},
		"WithTTL(8761h0m0s)":                          {WithTTL(8761 * time.Hour)},
		"the node timeout must be at least 1ms":       {WithNodeTimeout(0)},
		"the factor must be at least 0 and below 1":   {WithDrift(1, 0)},
		"WithDrift(NaN":                               {WithDrift(math.NaN(), 0)},
		"the base must not be negative":               {WithDrift(0, -1)},
		"and less than the ttl":                       {WithDrift(0.5, math.MaxInt64)},
		"and less than half of the ttl":               {WithNodeTimeout(math.MaxInt64)},
		"at most 256 are allowed":                     {WithOwnerLabel(strings.Repeat("x", 257))},
		"the ttl (1s) must exceed the drift allowanc": {WithTTL(time.Second), WithNodeTimeout(500 * time.Millisecond)},
		"plus two node timeouts (2 × 494ms)":          {WithTTL(time.Second), WithNodeTimeout(494 * time.Millisecond)},
		"option 1 is nil":                             {WithTTL(time.Second), nil},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := New([]Pool{&redis.Pool{}}, opts...)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, want)
			_, err = Open([]string{"redis://127.0.0.1:1"}, opts...)
			require.ErrorIs(t, err, ErrConfig)
		})
	}
	_, err := defaultOptions().with([]Option{WithTTL(time.Second), WithNodeTimeout(493 * time.Millisecond)})
	require.NoError(t, err, "1s > 12ms + 2 × 493ms")
}

func TestBadPoolsAreNamed(t *testing.T) {
	var none *redis.Pool
	for want, pools := range map[string][]Pool{
		"no pools":             nil,
		"pool 2 of 2 is nil":   {&redis.Pool{}, nil},
		"pool 1 of 1 is nil":   {none},
		"65 pools: at most 64": make([]Pool, 65),
	} {
		_, err := New(pools)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, want)
	}
	_, err := Open(nil)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "no pools")
}

func TestAMutexTellsItsBadSettings(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(2 * time.Second))
		for want, m := range map[string]*Mutex{
			"the lock's name is empty":     c.Mutex(""),
			"must exceed the drift":        c.Mutex("x", WithNodeTimeout(time.Second)),
			"WithLogger is a setting of":   c.Mutex("x", WithLogger(nil)),
			"the ttl must be between 50ms": c.Mutex("x", WithTTL(0)),
		} {
			_, err := m.Lock(t.Context())
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, want)
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrConfig)
		}
		require.Zero(t, net.nodes[0].executed("acquire"))
	})
}

func TestTheNodeTimeoutFollowsTheTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 5 * time.Millisecond,
		time.Second:           50 * time.Millisecond,
		10 * time.Second:      500 * time.Millisecond,
		time.Hour:             500 * time.Millisecond,
	} {
		o, err := defaultOptions().with([]Option{WithTTL(ttl)})
		require.NoError(t, err)
		require.Equal(t, want, o.voteTimeout())
	}
	o, err := defaultOptions().with([]Option{WithTTL(1500*time.Millisecond + 1)})
	require.NoError(t, err)
	require.Equal(t, 1501*time.Millisecond, o.ttl, "rounded up: the nodes count milliseconds")
}

func TestAMutexOverridesTheClientsSettings(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(20*time.Second), WithPrefix("app:"), WithOwnerLabel("worker 7"))
		lease, err := c.Mutex("x", WithTTL(time.Second), WithPrefix("")).Lock(t.Context())
		require.NoError(t, err)
		require.Contains(t, lease.Owner(), "@worker 7")
		require.Less(t, lease.Remaining(), time.Second)
		synctest.Wait()
		v, err := net.nodes[0].redis.Get("x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), v)
		require.NoError(t, lease.Unlock(t.Context()))

		lease, err = c.Mutex("x", WithOwnerLabel("")).Lock(t.Context())
		require.NoError(t, err)
		require.NotContains(t, lease.Owner(), "@")
		synctest.Wait()
		require.True(t, net.nodes[0].redis.Exists("app:x"))
		require.Greater(t, lease.Remaining(), 19*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}
