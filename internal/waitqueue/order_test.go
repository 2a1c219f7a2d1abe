package waitqueue_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Waiters are served in the order in which they asked.

// crowd is waiters that ask one after the other, and the order in which they are served.
type crowd struct {
	t  *testing.T
	wg sync.WaitGroup

	mu     sync.Mutex // protects what follows
	inside int
	served []int
}

// ask has waiter i lock, hold for a while, and unlock.
func (w *crowd) ask(m *redlock.Mutex, i int, hold time.Duration) {
	w.wg.Go(func() {
		lease, err := m.Lock(w.t.Context())
		if err != nil {
			w.t.Errorf("waiter %d: %v", i, err)
			return
		}
		w.mu.Lock()
		w.inside++
		if w.inside != 1 {
			w.t.Errorf("%d holders", w.inside)
		}
		w.served = append(w.served, i)
		w.mu.Unlock()
		time.Sleep(hold)
		w.mu.Lock()
		w.inside--
		w.mu.Unlock()
		if err := lease.Unlock(w.t.Context()); err != nil {
			w.t.Errorf("waiter %d: %v", i, err)
		}
	})
}

// requireOrder checks that n waiters are served in their order.
func (w *crowd) requireOrder(n int) {
	w.t.Helper()
	w.wg.Wait()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	require.Equal(w.t, want, w.served)
}

// clientsApart makes clients whose clocks show different times, up to 5 s apart.
func clientsApart(net *testnet.Net, n int, opts ...redlock.ClientOption) []*redlock.Client {
	clients := make([]*redlock.Client, n)
	for i := range clients {
		apart := rand.N(5 * time.Second)
		clients[i] = net.Client(append([]redlock.ClientOption{testnet.WithClock(func() time.Duration { return net.Clock.Now() + apart })}, opts...)...)
	}
	return clients
}

// queueThirtyTwo lets 32 waiters of 8 clients ask while a client holds the lock; then something
// goes wrong, and the hold ends.
func queueThirtyTwo(t *testing.T, trouble func(net *testnet.Net), end func(net *testnet.Net, holder *redlock.Client, lease *redlock.Lease)) (took time.Duration) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		clients := clientsApart(net, 8)
		holder := net.Client(redlock.WithTTL(3 * time.Second))
		lease := net.Must(holder.Mutex("x").Lock(t.Context()))
		waiters := &crowd{t: t}
		for i := range 32 {
			waiters.ask(clients[rand.N(8)].Mutex("x"), i, 2*ms)
			time.Sleep(ms)
		}
		time.Sleep(time.Second)
		trouble(net)
		end(net, holder, lease)
		took = testnet.Elapsed(func() { waiters.requireOrder(32) })
		net.Nodes.Thaw()
		time.Sleep(2 * time.Second)
		net.RequireNoKeys()
		net.RequireNoLines()
	})
	return took
}

func releases(net *testnet.Net, _ *redlock.Client, lease *redlock.Lease) {
	require.NoError(net.T, lease.Unlock(net.T.Context()))
}

func TestFirstComeFirstServedOverClients(t *testing.T) {
	queueThirtyTwo(t, func(*testnet.Net) {}, releases)
}

func TestOrderHoldsWhileANodeIsFrozen(t *testing.T) {
	queueThirtyTwo(t, func(net *testnet.Net) { net.Nodes[2].Freeze() }, releases)
}

func TestOrderHoldsWhenANodeReturnsEmpty(t *testing.T) {
	queueThirtyTwo(t, func(net *testnet.Net) { net.Nodes[2].Restart(nil); time.Sleep(time.Second) }, releases)
}

func TestOrderHoldsWhenTheHolderDies(t *testing.T) {
	took := queueThirtyTwo(t, func(*testnet.Net) {}, func(net *testnet.Net, holder *redlock.Client, lease *redlock.Lease) {
		net.Die(holder, lease)
		time.Sleep(net.Nodes[0].Redis.TTL("redlock:x"))
	})
	require.Less(t, took, 32*2*ms+200*ms, "the first waiter came soon after the end of the keys")
}

var schedules = flag.Int("schedules", 0, "schedules of clients that ask at the same instant, in hundreds; 0: as many as fit into a test")

// How often a client asks depends on chance. In one of some three thousand schedules a client asks a fourth time.
func TestSplitVotesAreSettledWithinThreeBallots(t *testing.T) {
	t.Parallel()
	played := *schedules
	if played == 0 {
		played = testnet.Tries(100, 4000)
	}
	more := 0 // how often a node was asked more than three times for each client
	for range played / 100 {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			clients := make([]*redlock.Client, 3+rand.N(4))
			for i := range clients {
				clients[i] = net.Client()
			}
			for range 100 {
				net.Nodes.Set(func(n *testnet.Node) { n.Log = nil; n.Skew() })
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				held := make(chan *redlock.Lease, len(clients))
				for _, c := range clients {
					wg.Go(func() {
						if lease, err := c.Mutex("x").Lock(ctx); err == nil {
							held <- lease
						}
					})
				}
				lease := <-held
				for _, n := range net.Nodes {
					asked := n.Executed("acquire")
					require.LessOrEqual(t, asked, 4*len(clients))
					if asked > 3*len(clients) {
						more++
					}
				}
				cancel()
				wg.Wait()
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(100 * ms)
				net.RequireNoKeys()
				net.RequireNoLines()
			}
		})
	}
	require.LessOrEqual(t, more, 1+played/250)
}

// Locks that are reserved for a waiter.

func TestNewcomersDoNotPassTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithTTL(3*time.Second)), net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(500 * ms)
		net.Die(a, lease)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:x")
		}
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "it is reserved for the first waiter")
		require.ErrorContains(t, err, "reserved for the first waiter")
		served.Wait()
		last := net.Must(c.Mutex("x").TryLock(t.Context()))
		require.NoError(t, last.Unlock(t.Context()))
	})
}

// A client of another Redlock library tries again and again, and joins no queue. Beside waiters of ours it hardly
// gets a turn, since they hand the lock over; beside callers of ours that try again too, it gets its share.
func TestForeignClientsStarveBesideWaitersAndNotBesideCallersWithABackoff(t *testing.T) {
	if !long.Tests() {
		t.Skip("make verify runs it")
	}
	turns := func(t *testing.T, net *testnet.Net, opts ...redlock.LockOption) (foreign, ours int) {
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
		defer stop()
		var conns []redis.Conn
		for _, n := range net.Nodes {
			conn := testnet.Dial(t, n)
			defer conn.Close()
			conns = append(conns, conn)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 5 {
			c := testnet.ListeningClient(t, net)
			all.Go(func() {
				for ctx.Err() == nil {
					lease, err := c.Mutex("x", opts...).Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(3 * ms)
					assert.NoError(t, lease.Unlock(t.Context()))
					mu.Lock()
					ours++
					mu.Unlock()
				}
			})
		}
		for ctx.Err() == nil {
			if tryForeign(conns, "redlock:x") {
				foreign++
				time.Sleep(3 * ms)
			}
			freeForeign(conns, "redlock:x")
			time.Sleep(20 * ms)
		}
		all.Wait()
		return foreign, ours
	}
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		foreign, ours := turns(t, net)
		t.Logf("beside waiters: %d turns, and %d of ours", foreign, ours)
		assert.Less(t, foreign, ours/50)
	})
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		foreign, ours := turns(t, net, redlock.WithBackoff(func(int) time.Duration { return 20 * ms }))
		t.Logf("beside callers with a back-off: %d turns, and %d of ours", foreign, ours)
		assert.Greater(t, foreign, ours/50)
	})
}

// tryForeign sends SET NX to each node, and reports whether a majority granted.
func tryForeign(conns []redis.Conn, key string) bool {
	got := 0
	for _, conn := range conns {
		if reply, _ := conn.Do("SET", key, "foreign", "NX", "PX", 8000); reply != nil {
			got++
		}
	}
	return got > len(conns)/2
}

// freeForeign deletes what tryForeign has set.
func freeForeign(conns []redis.Conn, key string) {
	for _, conn := range conns {
		if value, _ := redis.String(conn.Do("GET", key)); value == "foreign" {
			_, _ = conn.Do("DEL", key)
		}
	}
}
