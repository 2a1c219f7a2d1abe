package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The nodes refuse PUBLISH: the waiters poll. The set stands first for x, which is free. A challenge of its client would
// never arrive: half a second later the client would count as dead, though the set polls.
func TestSetKeepsItsNameFromLaterWaitersWithoutTheRightToPublish(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if cmd == "PUBLISH" {
						return "NOPERM this user has no permissions to run the 'publish' command"
					}
					return ""
				}
			})
		}
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		y, err := holder.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		set := queued(ctx, c.Multi([]string{"x", "y"}))
		later := []<-chan *redlock.Lease{
			queued(ctx, c.Mutex("x")), queued(ctx, c.Mutex("x")), queued(ctx, c.Mutex("x")), queued(ctx, d.Mutex("x")),
		}
		time.Sleep(30 * time.Second)
		for i, entered := range later {
			assert.Empty(t, entered, "waiter %d behind the set", i)
		}
		assert.Empty(t, set)
		leave()
		require.NoError(t, y.Unlock(t.Context()))
	})
}
