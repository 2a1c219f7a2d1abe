package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// How the scripts challenge the clients of a queue when the lock is found free: each is to show
// that it lives. All at one node.

// anotherOfFirst is a later ticket of the first client.
const anotherOfFirst = "0000000000000001-AAAAAAAAAAAAAAAA-0000000002"

// A machine that died keeps each lock from others once for all, and not once for each.
func TestClientThatMissesAChallengeForOneLockIsDeadAtAllLocks(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		for _, lock := range []string{"redlock:x", "redlock:y"} {
			require.NoError(t, n.Redis.Set(lock, "holder"))
			for _, ticket := range []string{testnet.FirstTicket, testnet.SecondTicket} {
				require.Equal(t, "holder", testnet.Ask(t, eval, lock, ticket))
			}
		}
		n.Redis.Del("redlock:x")
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket))
		time.Sleep(protocol.ReservationTTL)
		require.Empty(t, testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket), "the first client did not come")
		n.Redis.Del("redlock:y")
		require.Empty(t, testnet.Ask(t, eval, "redlock:y", testnet.SecondTicket))
	})
}

// aliveAt returns for how long a client counts as alive at a node, unless it asks again.
func aliveAt(n *testnet.Node, client string) time.Duration {
	return n.Redis.TTL(protocol.Key("alive", client))
}

// If the lock is reserved for another waiter of the client then, that is a new challenge.
func TestWaiterThatLeavesShowsThatItsClientLives(t *testing.T) {
	for name, c := range map[string]struct {
		leaves string
		alive  time.Duration
	}{
		"the one that was woken": {testnet.FirstTicket, protocol.ReservationTTL},
		"another one":            {anotherOfFirst, protocol.QueueTTL},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			require.NoError(t, n.Redis.Set("redlock:x", "holder"))
			for _, ticket := range []string{testnet.FirstTicket, anotherOfFirst, "0000000000000001-AAAAAAAAAAAAAAAA-0000000003", testnet.SecondTicket} {
				require.Equal(t, "holder", testnet.Ask(t, eval, "redlock:x", ticket))
			}
			n.Redis.Del("redlock:x")
			require.Equal(t, protocol.Reservation+testnet.FirstTicket, testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket))
			time.Sleep(protocol.ReservationTTL - 100*ms)
			require.Equal(t, 100*ms, aliveAt(n, "AAAAAAAAAAAAAAAA"), name)
			eval(protocol.Release, testnet.Keys("redlock:x", "of "+c.leaves, c.leaves)...)
			require.Equal(t, c.alive, aliveAt(n, "AAAAAAAAAAAAAAAA"), name)
		})
	}
}

// All clients are challenged at once, so three dead ones cost one reservation.
func TestAllQueuedClientsAreChallengedWhenTheLockIsFoundFree(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		require.NoError(t, n.Redis.Set("redlock:x", "holder"))
		last := "0000000000000004-DDDDDDDDDDDDDDDD-0000000001"
		for _, ticket := range []string{testnet.FirstTicket, anotherOfFirst, testnet.SecondTicket, testnet.ThirdTicket, last} {
			require.Equal(t, "holder", testnet.Ask(t, eval, "redlock:x", ticket))
		}
		n.Redis.Del("redlock:x")
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, testnet.Ask(t, eval, "redlock:x", last))
		time.Sleep(protocol.ReservationTTL)
		require.Empty(t, testnet.Ask(t, eval, "redlock:x", last))
	})
}
