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

// Two servers are restarted with data in which a set's ticket stands again whose caller has left, ahead of all others. Its
// client lives, and has another caller that waits: so the ticket counts as that of a client that lives.
func TestATicketThatARestartBroughtBackDoesNotBlockASet(t *testing.T) {
	for _, other := range []bool{false, true} {
		name := "of the same client"
		if other {
			name = "with a waiter of another client"
		}
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				names := []string{"x", "y"}
				holder, err := net.Client().Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				waits := make(chan *redlock.Lease, 2)
				wait := func(c *redlock.Client) {
					go func() {
						if l, err := c.Multi(names).Lock(ctx); err == nil {
							waits <- l
						}
					}()
					time.Sleep(time.Second)
				}
				wait(testnet.ListeningClient(t, net))
				for _, n := range net.Nodes[:2] {
					for _, name := range names {
						queue := protocol.Key("queue", "redlock:"+name)
						tickets, err := n.Redis.ZMembers(queue)
						require.NoError(t, err)
						require.Len(t, tickets, 1)
						_, err = n.Redis.ZAdd(queue, 0, "0000000000000001"+tickets[0][16:])
						require.NoError(t, err)
					}
				}
				calls := 1
				if other {
					wait(testnet.ListeningClient(t, net))
					calls++
				}
				require.NoError(t, holder.Unlock(ctx))
				for range calls {
					select {
					case lease := <-waits:
						require.NoError(t, lease.Unlock(ctx))
					case <-ctx.Done():
						t.Fatal("a caller that waits got no lock in a minute")
					}
				}
				net.RequireNoKeys()
			})
		})
	}
}
