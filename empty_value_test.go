package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A key with an empty value, as another program may set it, is held.
func TestAKeyWithAnEmptyValueIsHeld(t *testing.T) {
	for name, opts := range map[string][]Option{"with tokens": nil, "without tokens": {WithFencing(false)}} {
		for _, version := range []string{"6.2.0", "7.0.0"} {
			t.Run(name+" on "+version, func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, net *testNet) {
					for _, n := range net.nodes {
						n.set(func(n *testNode) { n.version = version })
						require.NoError(t, n.redis.Set("redlock:x", ""))
						n.redis.SetTTL("redlock:x", time.Minute)
					}
					c := net.client(opts...)
					var held *HeldError
					_, err := c.Mutex("x").TryLock(t.Context())
					require.ErrorAs(t, err, &held)
					require.Equal(t, emptyHolder, held.Holder)

					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err = c.Mutex("x").Lock(ctx)
					require.ErrorIs(t, err, ErrHeld)
					for _, n := range net.nodes {
						require.Empty(t, n.holderOf())
						require.True(t, n.redis.Exists("redlock:x"))
						n.redis.Del("redlock:x")
					}
					net.requireNoLines()
				})
			})
		}
	}
}

// A renewal does not take such a key back, and the lease is lost.
func TestARenewalLeavesAnEmptyValue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:x", ""))
		}
		require.ErrorIs(t, lease.Extend(t.Context()), ErrLost)
		for _, n := range net.nodes {
			require.True(t, n.redis.Exists("redlock:x"))
			n.redis.Del("redlock:x")
		}
	})
}
