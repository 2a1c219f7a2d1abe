package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A key with an empty value, as another program may set it, is held.
func TestKeyWithAnEmptyValueIsHeld(t *testing.T) {
	for name, opts := range map[string][]redlock.ClientOption{"with tokens": nil, "without tokens": {redlock.WithoutFencing()}} {
		for _, version := range []string{"6.2.0", "7.0.0"} {
			t.Run(name+" on "+version, func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					for _, n := range net.Nodes {
						n.Set(func(n *testnet.Node) { n.Version = version })
						require.NoError(t, n.Redis.Set("redlock:x", ""))
						n.Redis.SetTTL("redlock:x", time.Minute)
					}
					c := net.Client(opts...)
					var held *redlock.HeldError
					_, err := c.Mutex("x").TryLock(t.Context())
					require.ErrorAs(t, err, &held)
					require.Equal(t, protocol.EmptyHolder, held.Holder)

					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err = c.Mutex("x").Lock(ctx)
					require.ErrorIs(t, err, redlock.ErrHeld)
					for _, n := range net.Nodes {
						require.Empty(t, holderAt(n))
						require.True(t, n.Redis.Exists("redlock:x"))
						n.Redis.Del("redlock:x")
					}
					net.RequireNoLines()
				})
			})
		}
	}
}
