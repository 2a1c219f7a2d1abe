package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Two servers are restarted with data in which a ticket stands again whose caller has left, ahead of all others.
// Its client lives, and has another caller that waits: so the ticket counts as that of a client that lives.
func TestATicketThatARestartBroughtBackDoesNotBlockTheSemaphore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, err := net.Client().Semaphore("x", 1).Acquire(t.Context(), 1)
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		waits := acquireOne(t, net, 1)
		time.Sleep(time.Second)
		queue, _ := protocol.SlotKeys("redlock:", "x")
		for _, n := range net.Nodes[:2] {
			tickets, err := n.Redis.ZMembers(queue)
			require.NoError(t, err)
			require.Len(t, tickets, 1)
			_, err = n.Redis.ZAdd(queue, 0, "0000000000000001"+tickets[0][16:])
			require.NoError(t, err)
		}
		require.NoError(t, holder.Unlock(ctx))
		select {
		case lease := <-waits:
			require.NoError(t, lease.Unlock(ctx))
		case <-ctx.Done():
			t.Error("the caller that waits got no permit in a minute")
		}
		net.RequireNoKeys()
	})
}
