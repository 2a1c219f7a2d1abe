package waitqueue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A ticket with which nobody waits is the first in the queues, as after a restart of servers with old data. Its client
// lives, so it would keep its place for ever: when the nodes call it, the client takes it out.
func TestTicketWithWhichNobodyWaitsKeepsOthersOutForSeconds(t *testing.T) {
	mutex := func(c *redlock.Client) locks { return c.Mutex("x").Lock }
	for name, c := range map[string]struct {
		queue, suffix string // of the ticket
		take          func(c *redlock.Client) locks
	}{
		"of a mutex": {"redlock::queue:redlock:x", "", mutex},
		"of a set":   {"redlock::queue:redlock:x", protocol.SetSuffix, mutex},
		"of permits": {"redlock::slots:redlock:x", protocol.PermitsSuffix(1, 1), func(c *redlock.Client) locks {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 1).Acquire(ctx, 1) }
		}},
	} {
		for _, at := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, at %d nodes", name, at), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					b, d := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
					held, err := c.take(net.Client())(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					first := waitFor(t.Context(), c.take(d))
					second := waitFor(t.Context(), c.take(b))
					time.Sleep(5 * time.Second)
					stray := "0000000000000001-" + testhook.Engine(b).ID + "-0000000099" + c.suffix
					for _, n := range net.Nodes[:at] {
						_, err := n.Redis.ZAdd(c.queue, 0, stray)
						require.NoError(t, err)
					}
					took := testnet.Elapsed(func() {
						require.NoError(t, held.Unlock(t.Context()))
						held = <-first
					})
					t.Log(took)
					require.Less(t, took, 3*time.Second)
					for _, n := range net.Nodes[:at] {
						tickets, _ := n.Redis.ZMembers(c.queue)
						require.NotContains(t, tickets, stray)
						require.Greater(t, aliveAt(n, testhook.Engine(b).ID), protocol.ReservationTTL, "it has answered")
					}
					require.NoError(t, held.Unlock(t.Context()))
					require.NoError(t, (<-second).Unlock(t.Context()))
				})
			})
		}
	}
}
