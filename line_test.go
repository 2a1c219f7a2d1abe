package redlock

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Who waits for a lock stands in line, and is called.

// crowdOf are waiters that ask one after the other, and the order in which they
// are served.
type crowdOf struct {
	t  *testing.T
	wg sync.WaitGroup

	mu     sync.Mutex // protects what follows
	inside int
	served []int
}

// ask has waiter i lock, hold for a while, and unlock.
func (w *crowdOf) ask(m *Mutex, i int, hold time.Duration) {
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

func (w *crowdOf) requireOrder(n int) {
	w.t.Helper()
	w.wg.Wait()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	require.Equal(w.t, want, w.served)
}

// clientsApart are clients whose clocks show different times, up to 5 s apart.
func clientsApart(net *testNet, n int, opts ...Option) []*Client {
	clients := make([]*Client, n)
	for i := range clients {
		apart := rand.N(5 * time.Second)
		clients[i] = net.client(append([]Option{withClock(func() time.Duration { return net.clock.now() + apart })}, opts...)...)
	}
	return clients
}

// inLine lets 32 waiters of 8 clients ask while somebody holds; then something
// goes wrong, and the holder ends.
func inLine(t *testing.T, trouble func(net *testNet), end func(net *testNet, holder *Client, lease *Lease)) (took time.Duration) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		clients := clientsApart(net, 8)
		holder := net.client(WithTTL(3 * time.Second))
		lease, err := holder.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		crowd := &crowdOf{t: t}
		for i := range 32 {
			crowd.ask(clients[rand.N(8)].Mutex("x"), i, 2*ms)
			time.Sleep(ms)
		}
		time.Sleep(time.Second)
		trouble(net)
		end(net, holder, lease)
		took = elapsed(func() { crowd.requireOrder(32) })
		for _, n := range net.nodes {
			n.thaw()
		}
		time.Sleep(2 * time.Second)
		net.requireNoKeys()
		net.requireNoLines()
	})
	return took
}

func releases(net *testNet, _ *Client, lease *Lease) {
	require.NoError(net.t, lease.Unlock(net.t.Context()))
}

// requireNoLines checks that nobody stands in any line.
func (w *testNet) requireNoLines() {
	w.t.Helper()
	w.requireNone("line:")
}

// requireNone checks that no node has a key of this kind.
func (w *testNet) requireNone(kind string) {
	w.t.Helper()
	synctest.Wait()
	for _, n := range w.nodes {
		for _, key := range n.keys() {
			require.False(w.t, strings.HasPrefix(key, protocol.Reserved+kind), "node %d has %s", n.index, key)
		}
	}
}

func TestFirstComeFirstServedOverClients(t *testing.T) {
	inLine(t, func(*testNet) {}, releases)
}

func TestTheOrderStandsWhileANodeIsFrozen(t *testing.T) {
	inLine(t, func(net *testNet) { net.nodes[2].freeze() }, releases)
}

func TestTheOrderStandsWhenANodeReturnsEmpty(t *testing.T) {
	inLine(t, func(net *testNet) { net.nodes[2].restart(nil); time.Sleep(time.Second) }, releases)
}

func TestTheOrderStandsWhenTheHolderDies(t *testing.T) {
	took := inLine(t, func(*testNet) {}, func(net *testNet, holder *Client, lease *Lease) {
		holder.die(lease)
		time.Sleep(net.nodes[0].redis.TTL("redlock:x"))
	})
	require.Less(t, took, 32*2*ms+200*ms, "the first in line came soon after the end of the keys")
}

// die ends a lease as if the process did: nothing is renewed nor released.
func (c *Client) die(lease *Lease) {
	c.keeper.remove(lease.h)
	lease.h.mu.Lock()
	defer lease.h.mu.Unlock()
	lease.h.handle = lease // nor is it missed by the garbage collector
}

func TestUncontendedLocksOpenNoSecondConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Zero(t, net.nodes[0].executed("subscribe"))
		require.Len(t, net.nodes[0].links, 1)
	})
}

func TestAHandOverTakesTwoRoundTrips(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 10 * ms })
		}
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *Lease)
		go func() {
			next, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- next
		}()
		time.Sleep(500 * ms) // it has joined, and does not look again yet
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.log = nil })
		}
		took := elapsed(func() {
			go func() { require.NoError(t, lease.Unlock(t.Context())) }()
			lease = <-got
		})
		require.Equal(t, 40*ms, took)
		require.NoError(t, lease.Unlock(t.Context()))
		for _, n := range net.nodes {
			require.Equal(t, 1, n.executed("acquire"), "one attempt")
		}
	})
}

func TestCancelAtAnyInstantLeavesNothing(t *testing.T) {
	t.Parallel()
	const halves = 2 // one for each processor
	for range halves {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				clients := clientsApart(net, 3, WithTTL(2*time.Second))
				for i, n := range net.nodes {
					n.set(func(n *testNode) { n.delay = time.Duration(i+1) * 2 * ms })
				}
				const atOnce = 8
				for range tries(400, 10_000) / halves / atOnce {
					var wg sync.WaitGroup
					lease, err := clients[0].Mutex("x").Lock(t.Context())
					require.NoError(t, err)
					for i := range atOnce {
						wg.Go(func() {
							time.Sleep(rand.N(20 * ms))
							ctx, cancel := context.WithTimeout(t.Context(), rand.N(80*ms))
							defer cancel()
							got, err := clients[i%3].Mutex("x").Lock(ctx)
							if err == nil {
								require.NoError(t, got.Unlock(t.Context()))
							}
						})
					}
					served := false
					wg.Go(func() {
						next, err := clients[1].Mutex("x").Lock(t.Context())
						require.NoError(t, err)
						served = true
						require.NoError(t, next.Unlock(t.Context()))
					})
					time.Sleep(rand.N(60 * ms))
					go func() {
						time.Sleep(rand.N(40 * ms))
						require.NoError(t, lease.Unlock(t.Context()))
					}()
					took := elapsed(wg.Wait)
					require.True(t, served)
					require.Less(t, took, 3*time.Second)
					time.Sleep(20 * ms)
					net.requireNoKeys()
					net.requireNoLines()
				}
			})
		})
	}
}

var schedules = flag.Int("schedules", 0, "schedules of clients that ask at the same instant, in hundreds; 0: as many as fit into a test")

func TestSplitVotesAreSettledWithinThreeBallots(t *testing.T) {
	t.Parallel()
	played := *schedules
	if played == 0 {
		played = tries(100, 4000)
	}
	for range played / 100 {
		inBubble(t, 5, func(t *testing.T, net *testNet) {
			clients := make([]*Client, 3+rand.N(4))
			for i := range clients {
				clients[i] = net.client()
			}
			for range 100 {
				for _, n := range net.nodes {
					n.set(func(n *testNode) { n.log = nil; n.skew() })
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				held := make(chan *Lease, len(clients))
				for _, c := range clients {
					wg.Go(func() {
						if lease, err := c.Mutex("x").Lock(ctx); err == nil {
							held <- lease
						}
					})
				}
				lease := <-held
				for _, n := range net.nodes {
					require.LessOrEqual(t, n.executed("acquire"), 3*len(clients))
				}
				cancel()
				wg.Wait()
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(100 * ms)
				net.requireNoKeys()
				net.requireNoLines()
			}
		})
	}
}

// skew gives each link to the node a delay of its own.
func (n *testNode) skew() {
	for _, l := range n.links {
		l.delay = rand.N(20 * ms)
	}
}
