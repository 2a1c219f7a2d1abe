package redlock

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// What becomes of the line when calls are lost, or may not be made.

// sections counts the critical sections of so many clients in a while.
func sections(t *testing.T, net *testNet, clients []*Client, during time.Duration) int {
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

// loseCalls drops a share of what the nodes send on the connections for calls.
func (w *testNet) loseCalls(share float64) {
	for _, n := range w.nodes {
		n.set(func(n *testNode) {
			n.lose = func(data []byte) bool {
				return strings.Contains(string(data), "$7\r\nmessage") && rand.Float64() < share
			}
		})
	}
}

func TestLostCallsAndAMinorityDownLeaveHalfOfTheSpeed(t *testing.T) {
	slowWithRace(t)
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = ms })
		}
		var clients []*Client
		for range 4 {
			clients = append(clients, net.client())
		}
		healthy := sections(t, net, clients, 5*time.Second)
		net.nodes[1].down()
		net.nodes[4].down()
		net.loseCalls(0.01)
		lossy := sections(t, net, clients, 5*time.Second)
		t.Logf("%d sections healthy, %d with two nodes down and 1 %% of the calls lost", healthy, lossy)
		require.Greater(t, lossy, healthy/2)
	})
}

func TestOneLostCallCostsLittleAndAllOfThemASecond(t *testing.T) {
	for name, c := range map[string]struct {
		lossy int // nodes
		most  time.Duration
	}{
		"one of a quorum": {1, 100 * ms},
		"all":             {3, 1300 * ms},
	} {
		inBubble(t, 5, func(t *testing.T, net *testNet) {
			a, b := net.client(), net.client()
			net.nodes[3].down()
			net.nodes[4].down()
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *Lease)
			go func() {
				next, _ := b.Mutex("x").Lock(t.Context())
				got <- next
			}()
			time.Sleep(5 * time.Second)
			for _, n := range net.nodes[:c.lossy] {
				n.set(func(n *testNode) {
					n.lose = func(data []byte) bool { return strings.Contains(string(data), "$7\r\nmessage") }
				})
			}
			took := elapsed(func() {
				require.NoError(t, lease.Unlock(t.Context()))
				lease = <-got
			})
			require.NotNil(t, lease)
			require.LessOrEqual(t, took, c.most, name)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestWithoutTheRightToCallTheTimersServe(t *testing.T) {
	for _, forbidden := range []string{"SUBSCRIBE", "PUBLISH"} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			for _, n := range net.nodes {
				n.set(func(n *testNode) {
					n.override = func(cmd string, _ []string) string {
						if cmd == forbidden {
							return "NOPERM this user has no permissions to run it"
						}
						return ""
					}
				})
			}
			crowd := &crowdOf{t: t}
			clients := clientsApart(net, 4)
			lease, err := clients[0].Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			for i := range 4 {
				crowd.ask(clients[i].Mutex("x"), i, 2*ms)
				time.Sleep(time.Second)
			}
			took := elapsed(func() {
				require.NoError(t, lease.Unlock(t.Context()))
				crowd.wg.Wait()
			})
			require.Less(t, took, 12*time.Second, forbidden)
			require.Len(t, crowd.served, 4)
			time.Sleep(time.Second)
			net.requireNoKeys()
			net.requireNoLines()
		})
	}
}

// cuttable is a pool of one client, which can be cut off alone.
type cuttable struct {
	*testNode
	mu    sync.Mutex // protects what follows
	links []*link
	cut   bool
}

func (p *cuttable) GetContext(ctx context.Context) (redis.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn, err := p.testNode.GetContext(ctx)
	if err == nil {
		p.testNode.set(func(n *testNode) {
			l := n.links[len(n.links)-1]
			l.held = p.cut
			p.links = append(p.links, l)
		})
	}
	return conn, err
}

func (p *cuttable) hold(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.testNode.set(func(*testNode) {
		for _, l := range p.links {
			l.held = cut
		}
	})
}

// cuttableClient makes a client that can be cut off alone.
func (w *testNet) cuttableClient() (*Client, []*cuttable) {
	w.t.Helper()
	mine := make([]*cuttable, len(w.nodes))
	pools := make([]Pool, len(w.nodes))
	for i, n := range w.nodes {
		mine[i] = &cuttable{testNode: n}
		pools[i] = mine[i]
	}
	c, err := New(pools, WithLogger(nil), WithRestartGuard(0), withClock(w.clock.now))
	require.NoError(w.t, err)
	w.clients = append(w.clients, c)
	require.NoError(w.t, c.Ping(w.t.Context()))
	return c, mine
}

// A client that stands in line before others is cut off from all but two of five
// nodes, a third being down: it leaves, and does not come back before it reaches
// more.
func TestAHalfCutWaiterHoldsNobodyUp(t *testing.T) {
	slowWithRace(t)
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		var clients []*Client
		for range 4 {
			clients = append(clients, net.client())
		}
		net.nodes[4].down()
		before := sections(t, net, clients, 3*time.Second)

		half, pools := net.cuttableClient()
		lease, err := clients[0].Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := half.Mutex("x").Lock(ctx)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Second)
		for _, p := range pools[2:4] {
			p.hold(true)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		after := sections(t, net, clients, 3*time.Second)
		t.Logf("%d sections before, %d beside a client that reaches two nodes", before, after)
		require.Greater(t, after, before/2)
		cancel()
		wg.Wait()
		for _, p := range pools[2:4] {
			p.hold(false)
		}
	})
}

// Entries of clients that died do not pile up behind a head that waits for long,
// and a line that all have left by dying ends by itself.
func TestClientsThatComeAndDieDoNotFillTheLine(t *testing.T) {
	slowWithRace(t)
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		conn := dialTest(t, net.nodes[0])
		longest := int64(0)
		for range 3000 {
			w := &waiter{mutex: c.Mutex("x"), asked: c.opts.clock()}
			dead := newLine(c, len(c.nodes)) // a client of its own, which is not heard of again
			_, err := conn.Do("EVALSHA", protocol.Acquire.SHA, 1, "redlock:x", "owner", 1000, "", 1, dead.register(w), "label", "", "0")
			require.NoError(t, err)
			n, err := conn.Do("ZCARD", "redlock::line:redlock:x")
			require.NoError(t, err)
			longest = max(longest, n.(int64))
			time.Sleep(time.Second)
		}
		t.Logf("the line had %d entries at most, of 3000", longest)
		require.Less(t, longest, int64(1200))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(15 * time.Minute)
		net.requireNoKeys()
		net.requireNoLines()
		require.NoError(t, conn.Close())
	})
}
