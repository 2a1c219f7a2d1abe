package waitqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Clients that the nodes cannot wake: their user may not subscribe. They keep their place by asking.

// forbidSubscribing has the nodes refuse subscriptions. Those that stand remain.
func forbidSubscribing(net *testnet.Net) {
	for _, n := range net.Nodes {
		n.Set(func(n *testnet.Node) {
			n.Override = func(cmd string, _ []string) string {
				if cmd == "SUBSCRIBE" {
					return "NOPERM this user has no permissions to run the 'subscribe' command"
				}
				return ""
			}
		})
	}
}

// For how long a client counts as alive after it asked.
func TestLifeOfAClientFollowsFromItsPace(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		require.NoError(t, n.Redis.Set("redlock:x", "holder"))
		for i := range 150 { // each of a client of its own, to which no connection is subscribed
			client, life := fmt.Sprintf("M%015d", i), 3500*ms
			if place := min(i+1, 100); place > 4 {
				life = time.Duration(place)*625*ms + time.Second
			}
			ticket := fmt.Sprintf("%016d-%s-0000000001", i, client)
			attempt := eval(protocol.Acquire, 1, "redlock:x", "owner", 10_000, "", 1, ticket, "label", "", 0)
			reply, err := redis.Values(attempt, nil)
			require.NoError(t, err)
			require.Equal(t, []byte("nu"), reply[3], "it is new, and unheard")
			require.Equal(t, life, aliveAt(n, client), i)
			time.Sleep(ms)
		}
		require.Equal(t, "holder", testnet.Ask(t, eval, "redlock:x", testnet.FirstTicket))
		require.Equal(t, protocol.QueueTTL, aliveAt(n, "AAAAAAAAAAAAAAAA"), "it is subscribed")
	})
}

// It stands among clients that the nodes can wake: two are ahead of it, and two come later.
func TestClientThatCannotSubscribeKeepsItsPlaceForMinutes(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var clients []*redlock.Client
		for range 4 {
			clients = append(clients, testnet.ListeningClient(t, net))
		}
		forbidSubscribing(net)
		mute := net.Client()
		clients = append(clients[:2:2], mute, clients[2], clients[3])
		var waiters []<-chan *redlock.Lease
		for _, c := range clients {
			waiters = append(waiters, queued(t.Context(), c.Mutex("x")))
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Minute)
		for i, entered := range waiters {
			require.NoError(t, held.Unlock(t.Context()))
			held = <-entered
			time.Sleep(ms)
			for later := i + 1; later < len(waiters); later++ {
				require.Empty(t, waiters[later], "waiter %d before waiter %d", later, i)
			}
			time.Sleep(20 * time.Second)
		}
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// No node learns that the machine of forty waiters is cut off. Each costs the time of a reservation, until the client
// does not count as alive any more.
func TestDeadClientThatCouldNotSubscribeIsPassedAtTheEndOfItsKey(t *testing.T) {
	for ahead, most := range map[int]time.Duration{0: 3500 * ms, 19: 13500 * ms} { // waiters of a live client
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				held, err := net.Client().Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				synctest.Wait() // it has all nodes
				first, next := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
				forbidSubscribing(net)
				mute, pools := net.CuttableClient()
				_, served := testnet.QueueUp(t, first, ahead)
				leave, gone := testnet.QueueUp(t, mute, 40)
				entered := queued(t.Context(), next.Mutex("x"))
				time.Sleep(10 * time.Second)
				testnet.Hold(pools, true)
				left := time.Duration(0)
				for _, n := range net.Nodes {
					left = max(left, aliveAt(n, testhook.Engine(mute).ID))
				}
				require.Positive(t, left)
				require.LessOrEqual(t, left, most)
				took := testnet.Elapsed(func() {
					require.NoError(t, held.Unlock(t.Context()))
					held = <-entered
				})
				t.Logf("%v after the end of the key", took-left)
				testnet.Hold(pools, false)
				leave()
				gone.Wait()
				served.Wait()
				assert.Less(t, took, left+3*time.Second, "the next one looks 2.5 s after it at the latest")
				require.NoError(t, held.Unlock(t.Context()))
			})
		})
	}
}
