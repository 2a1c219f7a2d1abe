package waitqueue_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/simredis"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Two hundred waiters of ten clients wait for x, which is free and kept for a set that waits for y. The foremost of each
// client looks, and a few of them every second, in case the set's client has died.
func TestWaitersBehindAKeptNameLookSeldom(t *testing.T) {
	for name, kept := range map[string]bool{"x is held": false, "x is kept": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var looks atomic.Int64
				world := simredis.NewWorld(func(_ time.Duration, _ int, _ string, args []string, _ any) {
					if args[0] == "EVALSHA" {
						looks.Add(1)
					}
				})
				server := world.Server(0, func(now time.Duration) time.Duration { return now })
				newClient := func() *redlock.Client {
					link := server.Link("client", func(time.Duration, bool, int) simredis.Fate { return simredis.Fate{Delay: ms} })
					c, err := redlock.New([]redlock.Pool{link}, redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(world.Now))
					require.NoError(t, err)
					return c
				}
				holder, all := newClient(), make([]*redlock.Client, 10)
				held := "x"
				if kept {
					held = "y"
				}
				lease, err := holder.Mutex(held).Lock(t.Context())
				require.NoError(t, err)
				for i := range all {
					all[i] = newClient()
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = all[0].Multi([]string{"x", "y"}).Lock(ctx) })
				time.Sleep(100 * ms)
				positions := make([]int, 200)
				for i := range positions {
					wg.Go(func() {
						_, err := all[i%10].Mutex("x").Lock(ctx)
						var e *redlock.HeldError
						if assert.ErrorAs(t, err, &e) {
							positions[i] = e.Position
						}
					})
				}
				time.Sleep(30 * time.Second)
				before := looks.Load()
				time.Sleep(time.Minute)
				rate := float64(looks.Load()-before) / 60
				t.Logf("200 waiters of 10 clients: %.1f commands a second", rate)
				cancel()
				wg.Wait()
				assert.LessOrEqual(t, rate, 30.0)
				assert.Greater(t, slices.Max(positions), 100, "HeldError says how many stand ahead")
				require.NoError(t, lease.Unlock(t.Context()))
				for _, c := range append(all, holder) {
					require.NoError(t, c.Close())
				}
			})
		})
	}
}
