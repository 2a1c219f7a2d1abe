package waitqueue_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// What becomes of the queue when wake-ups are lost, or clients have no right to them.

// sections counts the critical sections of some clients in a while.
func sections(t *testing.T, net *testnet.Net, clients []*redlock.Client, during time.Duration) int {
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := 0
	for _, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if lease, err := c.Mutex("x").Lock(ctx); err == nil {
					mu.Lock()
					count++
					mu.Unlock()
					time.Sleep(2 * ms)
					require.NoError(t, lease.Unlock(t.Context()))
				}
			}
		})
	}
	wg.Wait()
	return count
}

func TestLostWakeUpsAndAMinorityDownLeaveHalfOfTheSpeed(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		var clients []*redlock.Client
		for range 4 {
			clients = append(clients, net.Client())
		}
		healthy := sections(t, net, clients, 5*time.Second)
		net.Nodes[1].Down()
		net.Nodes[4].Down()
		net.LoseCalls(0.01)
		lossy := sections(t, net, clients, 5*time.Second)
		t.Logf("%d sections healthy, %d with two nodes down and 1 %% of the wake-ups lost", healthy, lossy)
		require.Greater(t, lossy, healthy/2)
	})
}

func TestOneLostWakeUpCostsLittleAndAllOfThemASecond(t *testing.T) {
	for name, c := range map[string]struct {
		lossy int // nodes
		most  time.Duration
	}{
		"one of a quorum": {1, 100 * ms},
		"all":             {3, 1300 * ms},
	} {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(), net.Client()
			net.Nodes[3].Down()
			net.Nodes[4].Down()
			lease := net.Must(a.Mutex("x").Lock(t.Context()))
			got := net.Begin(b.Mutex("x").Lock)
			time.Sleep(5 * time.Second)
			for _, n := range net.Nodes[:c.lossy] {
				n.Set(func(n *testnet.Node) {
					n.Lose = func(data []byte) bool { return strings.Contains(string(data), "$7\r\nmessage") }
				})
			}
			took := testnet.Elapsed(func() {
				require.NoError(t, lease.Unlock(t.Context()))
				lease = <-got
			})
			require.NotNil(t, lease)
			t.Logf("%s: %v", name, took)
			require.LessOrEqual(t, took, c.most, name)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestWaitersPollWithoutPubSubRights(t *testing.T) {
	// Each case makes four hand-offs. The nodes tell a client that they cannot wake it, and it polls.
	for forbidden, most := range map[string]time.Duration{"SUBSCRIBE": 2 * time.Second, "PUBLISH": 10 * time.Second} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			net.Nodes.Refuse("NOPERM this user has no permissions to run it", forbidden)
			waiters := &crowd{t: t}
			clients := clientsApart(net, 4)
			lease := net.Must(clients[0].Mutex("x").Lock(t.Context()))
			for i := range 4 {
				waiters.ask(clients[i].Mutex("x"), i, 2*ms)
				time.Sleep(time.Second)
			}
			took := testnet.Elapsed(func() {
				require.NoError(t, lease.Unlock(t.Context()))
				waiters.wg.Wait()
			})
			t.Logf("without %s: %v", forbidden, took)
			require.Less(t, took, most, forbidden)
			require.Len(t, waiters.served, 4)
			time.Sleep(time.Second)
			net.RequireNoKeys()
			net.RequireNoLines()
		})
	}
}

// A client that stands in the queue before others is cut off from all but two of five nodes, a
// third being down: it leaves, and does not come back before it reaches more.
func TestWaiterThatReachesAMinorityDelaysNoOther(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		var clients []*redlock.Client
		for range 4 {
			clients = append(clients, net.Client())
		}
		net.Nodes[4].Down()
		before := sections(t, net, clients, 3*time.Second)

		half, pools := net.CuttableClient()
		lease := net.Must(clients[0].Mutex("x").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := half.Mutex("x").Lock(ctx)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Second)
		testnet.Hold(pools[2:4], true)
		require.NoError(t, lease.Unlock(t.Context()))
		after := sections(t, net, clients, 3*time.Second)
		t.Logf("%d sections before, %d beside a client that reaches two nodes", before, after)
		require.Greater(t, after, before/2)
		cancel()
		wg.Wait()
		testnet.Hold(pools[2:4], false)
	})
}

// deadTicket returns a ticket for the lock, of a client of its own that does nothing else.
func deadTicket(t *testing.T, like *redlock.Client) string {
	e, l := testhook.Engine(like), life.New()
	l.Settle()
	queue := waitqueue.NewQueue(waitqueue.Config{ID: e.Random.ID("client").String()[:16], Clock: e.Clock, Life: l, Cluster: e.Cluster})
	w, err := queue.NewWaiter(t.Context(), testhook.Lock(like.Mutex("x")).WaitedFor(), e.Clock())
	require.NoError(t, err)
	return w.Ticket()
}

// Entries of clients that died do not pile up behind a first waiter that waits for long, and a
// queue that all have left by dying ends by itself.
func TestClientsThatComeAndDieDoNotFillTheQueue(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		conn := testnet.Dial(t, net.Nodes[0])
		longest := int64(0)
		for range 3000 {
			dead := deadTicket(t, c)
			_, err := conn.Do("EVALSHA", protocol.Acquire.SHA(), 2, "redlock:x", "record", "owner", 1000, "7", 1, dead, "label", "", "0")
			require.NoError(t, err)
			n, err := conn.Do("ZCARD", "redlock::queue:redlock:x")
			require.NoError(t, err)
			longest = max(longest, n.(int64))
			time.Sleep(time.Second)
		}
		t.Logf("the queue had %d entries at most, of 3000", longest)
		require.Less(t, longest, int64(1200))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(15 * time.Minute)
		net.RequireNoKeys()
		net.RequireNoLines()
		require.NoError(t, conn.Close())
	})
}
