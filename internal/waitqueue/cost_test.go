package waitqueue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/simredis"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What waiting costs, and how the lock is shared.

func TestThousandWaitersCostANodeFewCommands(t *testing.T) {
	testnet.SlowWithRace(t)
	for clients, most := range map[int]float64{10: 10, 1000: 100} {
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64 // not what keeps connections up, and finds whether the node votes
			world := simredis.NewWorld(func(_ time.Duration, _ int, _ string, args []string, _ any) {
				if args[0] == "EVALSHA" && args[1] != protocol.Probe.SHA() && args[1] != protocol.Look.SHA() {
					looks.Add(1)
				}
			})
			server := world.Server(0, func(now time.Duration) time.Duration { return now })
			newClient := func() *redlock.Client {
				link := server.Link("client", func(time.Duration, bool, int) simredis.Fate { return simredis.Fate{Delay: ms} })
				c, err := redlock.New([]redlock.Pool{link}, redlock.WithTTL(10*time.Second), redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(world.Now))
				require.NoError(t, err)
				return c
			}
			holder, all := newClient(), make([]*redlock.Client, clients)
			lease, err := holder.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			for i := range all {
				all[i] = newClient()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 1000 {
				wg.Go(func() { _, _ = all[i%clients].Mutex("x").Lock(ctx) })
			}
			time.Sleep(30 * time.Second)
			before := looks.Load()
			time.Sleep(3 * time.Minute)
			rate := float64(looks.Load()-before) / 180
			t.Logf("a thousand waiters of %d clients: %.1f commands a second", clients, rate)
			assert.LessOrEqual(t, rate, most)
			cancel()
			wg.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			for _, c := range append(all, holder) {
				require.NoError(t, c.Close())
			}
		})
	}
}

// commandsAt counts what clients have sent to a node, without what the scripts call.
func commandsAt(n *testnet.Node) int {
	count := 0
	for _, label := range []string{"acquire", "release", "raise", "renew", "probe", "admit", "ping", "time", "subscribe", "client", "script", "info"} {
		count += n.Executed(label)
	}
	return count
}

func TestCommandsPerHandOffDoNotGrowWithTheWaiters(t *testing.T) {
	testnet.SlowWithRace(t)
	figures := map[int]float64{}
	for _, waiters := range []int{2, 32} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			clients := []*redlock.Client{net.Client(), net.Client(), net.Client(), net.Client()}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var leases atomic.Int64
			for i := range waiters {
				wg.Go(func() {
					for ctx.Err() == nil {
						if lease, err := clients[i%4].Mutex("x").Lock(ctx); err == nil {
							leases.Add(1)
							time.Sleep(2 * ms)
							_ = lease.Unlock(ctx)
						}
					}
				})
			}
			time.Sleep(300 * ms)
			net.Nodes[0].Set(func(n *testnet.Node) { n.Log = nil })
			before := leases.Load()
			time.Sleep(500 * ms)
			figures[waiters] = float64(commandsAt(net.Nodes[0])) / float64(leases.Load()-before)
			cancel()
			wg.Wait()
		})
	}
	t.Logf("%v", figures)
	require.LessOrEqual(t, figures[32], figures[2]*1.2)
	require.LessOrEqual(t, figures[32], 6.0)
}

func TestEqualClientsGetEqualShares(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		shares := make([]int, 16)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range shares {
			c := net.Client()
			wg.Go(func() {
				for ctx.Err() == nil {
					if lease, err := c.Mutex("x").Lock(ctx); err == nil {
						shares[i]++
						time.Sleep(2 * ms)
						_ = lease.Unlock(ctx)
					}
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		total := 0
		for _, s := range shares {
			total += s
		}
		for i, s := range shares {
			require.InDelta(t, 1, float64(s)*16/float64(total), 0.2, "client %d: %v", i, shares)
		}
		t.Log(fmt.Sprint(shares))
	})
}
