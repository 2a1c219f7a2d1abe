package waitqueue_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
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
		lease, err := holder.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		waiters := &crowd{t: t}
		for i := range 32 {
			waiters.ask(clients[rand.N(8)].Mutex("x"), i, 2*ms)
			time.Sleep(ms)
		}
		time.Sleep(time.Second)
		trouble(net)
		end(net, holder, lease)
		took = testnet.Elapsed(func() { waiters.requireOrder(32) })
		for _, n := range net.Nodes {
			n.Thaw()
		}
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
				for _, n := range net.Nodes {
					n.Set(func(n *testnet.Node) { n.Log = nil; n.Skew() })
				}
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
