package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What waiting costs, and what it brings.

func TestAThousandWaitersCostANodeFewCommands(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		holder := net.client()
		clients := make([]*Client, 8)
		for i := range clients {
			clients[i] = net.client()
		}
		lease, err := holder.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { _, _ = clients[i%8].Mutex("x").Lock(ctx) })
		}
		time.Sleep(30 * time.Second)
		net.nodes[0].set(func(n *testNode) { n.log = nil })
		time.Sleep(60 * time.Second)
		rate := float64(net.nodes[0].commands()) / 60
		t.Logf("%.1f commands a second", rate)
		require.LessOrEqual(t, rate, 10.0)
		cancel()
		wg.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
		net.requireNoLines()
	})
}

// commands counts what clients have sent, without what the scripts call.
func (n *testNode) commands() int {
	count := 0
	for _, label := range []string{"acquire", "release", "raise", "renew", "probe", "admit", "ping", "time", "subscribe", "client", "script", "info"} {
		count += n.executed(label)
	}
	return count
}

func TestCommandsPerHandOverDoNotGrowWithTheWaiters(t *testing.T) {
	t.Parallel()
	figures := map[int]float64{}
	for _, waiters := range []int{2, 32} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			clients := []*Client{net.client(), net.client(), net.client(), net.client()}
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
			net.nodes[0].set(func(n *testNode) { n.log = nil })
			before := leases.Load()
			time.Sleep(500 * ms)
			figures[waiters] = float64(net.nodes[0].commands()) / float64(leases.Load()-before)
			cancel()
			wg.Wait()
		})
	}
	t.Logf("%v", figures)
	require.LessOrEqual(t, figures[32], figures[2]*1.2)
	require.LessOrEqual(t, figures[32], 6.0)
}

func TestEqualClientsGetEqualShares(t *testing.T) {
	slowWithRace(t)
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		shares := make([]int, 16)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range shares {
			c := net.client()
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
