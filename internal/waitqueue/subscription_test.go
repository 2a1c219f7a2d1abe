package waitqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// The subscriptions over which nodes wake a client.

func TestReopenedSubscriptionsMakeTheForemostWaiterLook(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a := net.Client()
		b, pools := net.CuttableClient()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		_, served := testnet.QueueUp(t, b, 100)
		time.Sleep(500 * ms)
		for _, p := range pools { // the subscriptions alone
			p.BreakLast()
		}
		took := testnet.Elapsed(func() {
			require.NoError(t, lease.Unlock(t.Context()))
			served.Wait()
		})
		require.Less(t, took, 3*time.Second)
	})
}

// A subscription that stands later than a quorum of them makes the client's foremost waiter look: else the node would not know
// that the client is dead when its process is killed.
func TestNodeLearnsOfASubscriptionThatOpensLate(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		b := net.Client()
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Log, n.Delay = nil, time.Duration(i)*20*ms })
		}
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(700 * ms)
		for _, n := range net.Nodes {
			require.LessOrEqual(t, n.Executed("acquire"), 4, "one to see that it is held, one to queue, and one for each late subscription")
			for _, key := range n.Redis.Keys() {
				if strings.HasPrefix(key, "redlock::alive:") {
					label, err := n.Redis.Get(key)
					require.NoError(t, err)
					require.Equal(t, "!", label[:1], n)
				}
			}
		}
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
	})
}

// lonely is a pool with room for one connection.
type lonely struct {
	*testnet.Node
	mu   sync.Mutex // protects used
	used bool
}

type lonelyConn struct {
	testnet.Conn
	pool *lonely
}

func (p *lonely) GetContext(ctx context.Context) (redis.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used {
		return nil, errors.New("connection pool exhausted")
	}
	conn, err := p.Node.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	p.used = true
	return lonelyConn{conn.(testnet.Conn), p}, nil
}

func (c lonelyConn) Close() error {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.used = false
	return c.Conn.Close()
}

func TestSubscriptionDoesNotTakeTheNodesOnlyConnection(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		pools := make([]redlock.Pool, len(net.Nodes))
		for i, n := range net.Nodes {
			pools[i] = &lonely{Node: n}
		}
		a := net.Client()
		b, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		net.Add(b)
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(time.Second)
		for range 10 {
			net.Nodes.Down()
			time.Sleep(time.Second)
			net.Nodes.Up()
			time.Sleep(2 * time.Second)
			require.NoError(t, b.Ping(t.Context()))
		}
		require.NoError(t, lease.Unlock(t.Context()))
		require.Less(t, testnet.Elapsed(served.Wait), 3*time.Second, "the waiter polls")
	})
}

// A client's subscriptions break at all nodes again and again, as behind a proxy that ends connections. It wants
// what others share, and each of them holds its part for two seconds. Its turn comes when those before it have left:
// nobody passes it.
func TestWaiterWhoseSubscriptionsBreakIsNotPassedForEver(t *testing.T) {
	shares := func(n int) func(c *redlock.Client) locks {
		return func(c *redlock.Client) locks {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 6).Acquire(ctx, n) }
		}
	}
	for name, kinds := range map[string]struct{ wants, others func(c *redlock.Client) locks }{
		"a writer among readers": {
			func(c *redlock.Client) locks { return c.RWMutex("x").Lock },
			func(c *redlock.Client) locks { return c.RWMutex("x").RLock },
		},
		"all permits": {shares(6), shares(1)},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c, pools := net.CuttableClient()
				subscribe(t, c)
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range 4 {
					other := net.Client()
					for i := range 20 {
						all.Go(func() {
							time.Sleep(time.Duration(i) * 50 * ms)
							for ctx.Err() == nil {
								if lease, err := kinds.others(other)(ctx); err == nil {
									time.Sleep(2 * time.Second)
									_ = lease.Unlock(t.Context())
								}
							}
						})
					}
				}
				time.Sleep(3 * time.Second)
				all.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(970 * ms) // not in step with the leases, as nothing is
						for _, p := range pools {
							p.BreakLast() // its subscription
						}
					}
				})
				limit, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				var lease *redlock.Lease
				var err error
				took := testnet.Elapsed(func() { lease, err = kinds.wants(c)(limit) })
				t.Log(took)
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				end()
				all.Wait()
				require.NoError(t, err)
			})
		})
	}
}

// Clients that the nodes cannot wake: their user may not subscribe. They keep their place by asking.

// forbidSubscribing has the nodes refuse subscriptions. Those that stand remain.
func forbidSubscribing(net *testnet.Net) {
	net.Nodes.Refuse("NOPERM this user has no permissions to run the 'subscribe' command", "SUBSCRIBE")
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
			attempt := eval(protocol.Acquire, 2, "redlock:x", "record", "owner", 10_000, "7", 1, ticket, "label", "", 0)
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
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
				held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
