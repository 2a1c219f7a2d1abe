package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
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

// A node challenges a client by the ticket of a waiter whose turn it is not. The client shows that it lives, and no
// waiter asks. If the node took it for dead, it may have dropped tickets: then the foremost waiter for each lock asks.
func TestChallengedClientShowsThatItLives(t *testing.T) {
	for name, c := range map[string]struct {
		alive time.Duration // when the message comes; 0: the node took the client for dead
		asks  int           // how many waiters ask
	}{
		"in time":  {protocol.ReservationTTL, 0},
		"too late": {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				w := testnet.ListeningClient(t, net)
				held := net.Must(net.Client(redlock.WithTTL(time.Hour)).Multi([]string{"x", "y"}).Lock(t.Context()))
				synctest.Wait() // it has all nodes
				var waiters []<-chan *redlock.Lease
				for _, name := range []string{"x", "x", "y", "y"} {
					waiters = append(waiters, queued(t.Context(), w.Mutex(name)))
				}
				time.Sleep(5 * time.Second)
				n, e := net.Nodes[0], testhook.Engine(w)
				tickets, err := n.Redis.ZMembers("redlock::queue:redlock:x")
				require.NoError(t, err)
				alive := protocol.Key("alive", e.ID)
				n.Redis.SetTTL(alive, c.alive)
				if c.alive == 0 {
					n.Redis.Del(alive)
				}
				net.ClearLogs()
				e.Queue().Message(e.Cluster.Nodes()[0].Node, "live "+tickets[1]+" redlock:x")
				synctest.Wait()
				require.Equal(t, protocol.QueueTTL, n.Redis.TTL(alive))
				value, err := n.Redis.Get(alive)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(value, "!"), value)
				require.LessOrEqual(t, n.Executed("acquire"), 1, "they ask one after the other")
				time.Sleep(10 * time.Millisecond)
				require.Equal(t, c.asks > 0, n.Executed("acquire") > 1, "a regular look may fall here")
				require.NoError(t, held.Unlock(t.Context()))
				for _, entered := range waiters {
					require.NoError(t, (<-entered).Unlock(t.Context()))
				}
			})
		})
	}
}

// A wake-up is a challenge: a waiter that is woken tries while the node still counts on it.
func TestWokenWaiterTriesWithinTheReservationHoweverOftenItFailed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		for range 10 {
			w.wake(0, "ready", w.Ticket())
			w.try(t)
		}
		took := testnet.Elapsed(func() {
			go w.wake(0, "ready", w.Ticket())
			require.NoError(t, w.AwaitTurn(context.Background(), farBack))
		})
		require.Equal(t, protocol.ReservationTTL/4, took)
		synctest.Wait()
	})
}

// A waiter that one node woke again and again in vain tries at once when a quorum has the lock for it. That one is a node
// that the holder does not reach: it never has the lock for anybody.
func TestWaiterTriesAtOnceWhenAQuorumIsReadyHoweverOftenOneNodeWokeIt(t *testing.T) {
	const longest = protocol.ReservationTTL / 4
	for name, c := range map[string]struct {
		nodes []int         // that woke it in vain
		waits time.Duration // when a quorum has woken it
	}{
		"one node": {nodes: []int{0}},
		"a quorum": {nodes: []int{0, 1}, waits: longest},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			w, leave := newWaiter(t, net)
			defer leave()
			ready := func(nodes []int) {
				for _, n := range nodes {
					w.wake(n, "ready", w.Ticket())
				}
			}
			for range 10 {
				ready(c.nodes)
				w.try(t)
			}
			took := testnet.Elapsed(func() {
				ready([]int{0, 1})
				require.NoError(t, w.AwaitTurn(context.Background(), farBack))
			})
			require.Equal(t, c.waits, took, name)
			synctest.Wait()
		})
	}
}

// A waiter that was told of two hand-offs, one behind the other, looks after both: a look before the second one is over
// says nothing about it.
func TestWaiterThatIsToldOfTwoHandOffsLooksAfterEach(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		awaits := func() time.Duration {
			return testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(context.Background(), farBack)) })
		}
		w.queue.Message(w.engine.Cluster.Nodes()[0].Node, "watch "+w.Ticket()+" 500")
		time.Sleep(400 * ms)
		w.queue.Message(w.engine.Cluster.Nodes()[0].Node, "watch "+w.Ticket()+" 500")
		require.Equal(t, 100*ms, awaits())
		w.try(t)
		require.Equal(t, 400*ms, awaits())
		w.try(t)
		require.Greater(t, awaits(), time.Second)
		synctest.Wait()
	})
}
