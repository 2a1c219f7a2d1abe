package waitqueue_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// How the scripts challenge the clients of a queue when the lock is found free: each is to show
// that it lives. All at one node.

// anotherOfFirst is a later ticket of the first client.
const anotherOfFirst = "0000000000000001-AAAAAAAAAAAAAAAA-0000000002"

func TestClientThatMissesAChallengeForOneLockLivesAtTheOthers(t *testing.T) {
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
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, testnet.Ask(t, eval, "redlock:y", testnet.SecondTicket))
	})
}

func TestWaiterThatLeavesWhenItIsWokenShowsThatItsClientLives(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		require.NoError(t, n.Redis.Set("redlock:x", "holder"))
		for _, ticket := range []string{testnet.FirstTicket, anotherOfFirst, "0000000000000001-AAAAAAAAAAAAAAAA-0000000003", testnet.SecondTicket} {
			require.Equal(t, "holder", testnet.Ask(t, eval, "redlock:x", ticket))
		}
		n.Redis.Del("redlock:x")
		require.Equal(t, protocol.Reservation+testnet.FirstTicket, testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket))
		eval(protocol.Release, testnet.Keys("redlock:x", "of "+testnet.FirstTicket, testnet.FirstTicket)...)
		require.Equal(t, protocol.Reservation+anotherOfFirst, holderOf(n))
		time.Sleep(protocol.ReservationTTL)
		require.Equal(t, protocol.Reservation+"0000000000000001-AAAAAAAAAAAAAAAA-0000000003", testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket))
	})
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

func TestClientsAheadAreCountedUpToThree(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		require.NoError(t, n.Redis.Set("redlock:x", "holder"))
		ahead := func(ticket string) int64 {
			reply, err := redis.Values(eval(protocol.Acquire, 1, "redlock:x", "of "+ticket, 10_000, "", 1, ticket, "label", "", 0), nil)
			require.NoError(t, err)
			return reply[3].(int64)
		}
		for range 2 { // it joins, and stays
			require.EqualValues(t, 0, ahead(testnet.FirstTicket))
			require.EqualValues(t, 0, ahead(anotherOfFirst))
			for range 200 {
				require.EqualValues(t, 1, ahead(testnet.SecondTicket), "a client counts once")
			}
		}
		for i := range 200 {
			testnet.Ask(t, eval, "redlock:x", testnet.SecondTicket[:len(testnet.SecondTicket)-4]+string([]byte{'1', '0' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)}))
		}
		require.EqualValues(t, 2, ahead(testnet.ThirdTicket), "behind many of one")
		require.EqualValues(t, 3, ahead("0000000000000004-DDDDDDDDDDDDDDDD-0000000001"))
		require.EqualValues(t, 3, ahead("0000000000000005-EEEEEEEEEEEEEEEE-0000000001"))
	})
}
