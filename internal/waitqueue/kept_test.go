package waitqueue_test

import (
	"context"
	"fmt"
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

// Many clients die at once, each with one waiter ahead of a living one. All of them want x, which
// nobody holds from then on. Behind waiters for x alone, it is free for three seconds, and half a
// second more for each nine clients. Waiters for x and y, where y is held, add the two seconds for
// which x is kept for the first of them, and the second until the next poll.
func TestManyDeadSetsKeepAFreeNameForSeconds(t *testing.T) {
	const mutexes, sets = 3 * time.Second, 6 * time.Second
	for name, row := range map[string]struct {
		lockOf func(c *redlock.Client) *redlock.Mutex
		most   time.Duration
	}{
		"mutexes": {func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x") }, mutexes},
		"sets":    {func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"x", "y"}) }, sets},
	} {
		for _, clients := range []int{20, 1, 9}[:testnet.Tries(1, 3)] {
			t.Run(fmt.Sprintf("%d %s", clients, name), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					took := freeBehindDead(t, net, clients, row.lockOf)
					t.Logf("x was free for %v", took)
					assert.Less(t, took, row.most+time.Duration(clients/9)*500*ms)
				})
			})
		}
	}
}

// freeBehindDead returns how long the lock x is free when clients that wait for x, or for x and y,
// have died ahead of a waiter that lives.
func freeBehindDead(t *testing.T, net *testnet.Net, clients int, lockOf func(c *redlock.Client) *redlock.Mutex) time.Duration {
	holder, c := net.Client(), testnet.ListeningClient(t, net)
	y := net.Must(holder.Mutex("y").Lock(t.Context()))
	x := net.Must(holder.Mutex("x").Lock(t.Context()))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var dead []*testnet.Cuttable
	for range clients {
		dying, pools := net.CuttableClient()
		dead = append(dead, pools...)
		queued(ctx, lockOf(dying))
	}
	next := queued(t.Context(), c.Mutex("x"))
	time.Sleep(10 * time.Second)
	testnet.Hold(dead, true)
	defer testnet.Hold(dead, false)
	require.NoError(t, x.Unlock(t.Context()))
	began := time.Now()
	lease := <-next
	took := time.Since(began)
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, y.Unlock(t.Context()))
	return took
}

// The nodes refuse PUBLISH: the waiters poll. The set stands first for x, which is free. A challenge of its client would
// never arrive: half a second later the client would count as dead, though the set polls.
func TestSetKeepsItsNameFromLaterWaitersWithoutTheRightToPublish(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes.Refuse("NOPERM this user has no permissions to run the 'publish' command", "PUBLISH")
		holder, c, d := net.Client(), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		y := net.Must(holder.Mutex("y").Lock(t.Context()))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		set := queued(ctx, c.Multi([]string{"x", "y"}))
		later := []<-chan *redlock.Lease{
			queued(ctx, c.Mutex("x")), queued(ctx, c.Mutex("x")), queued(ctx, c.Mutex("x")), queued(ctx, d.Mutex("x")),
		}
		time.Sleep(30 * time.Second)
		for i, entered := range later {
			assert.Empty(t, entered, "waiter %d behind the set", i)
		}
		assert.Empty(t, set)
		leave()
		require.NoError(t, y.Unlock(t.Context()))
	})
}

// Without tokens, an attempt of a caller that is not queued does not look at the queue. Two callers of
// TryLock hold x and y in turns, for a while each: x or y is always held. A waiter for x alone gets
// it by the next release; the set must get its names as well.
func TestSetWithoutTokensIsNotPassedByCallersOfTryLock(t *testing.T) {
	for name, names := range map[string][]string{"one name": {"x"}, "two names": {"x", "y"}} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := testnet.ListeningClient(t, net, redlock.WithoutFencing())
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for _, name := range []string{"x", "y"} {
					m := net.Client(redlock.WithoutFencing()).Mutex(name)
					all.Go(func() {
						for ctx.Err() == nil {
							if lease, err := m.TryLock(ctx); err == nil {
								time.Sleep(200 * ms)
								_ = lease.Unlock(t.Context())
							}
							time.Sleep(10 * ms)
						}
					})
					time.Sleep(100 * ms)
				}
				waiting, giveUp := context.WithTimeout(t.Context(), time.Minute)
				defer giveUp()
				began := time.Now()
				lease, err := c.Multi(names).Lock(waiting)
				assert.NoError(t, err)
				assert.Less(t, time.Since(began), time.Second)
				stop()
				all.Wait()
				if err == nil {
					require.NoError(t, lease.Unlock(t.Context()))
				}
			})
		})
	}
}

// All names of a set become free, one after the other, while callers of TryLock ask for each of
// them again and again. Each of these sets the key, sees the queue, and gives the key back a trip later. None of
// them may get a name, since the set waits; so the set must get them.
func TestSetGetsItsFreeNamesThoughCallersTryThemAgainAndAgain(t *testing.T) {
	for _, many := range [][2]int{{2, 1}, {12, 1}, {8, 4}}[:testnet.Tries(2, 3)] {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, c := net.Client(), testnet.ListeningClient(t, net)
				var names []string
				for i := range many[0] {
					names = append(names, fmt.Sprintf("n%02d", i))
				}
				held := net.Must(holder.Mutex(names[0]).Lock(t.Context()))
				net.Delay(5 * ms)
				set := queued(t.Context(), c.Multi(names))
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var got, refused atomic.Int64
				for i := range many[0] * many[1] {
					m := net.Client().Mutex(names[i%many[0]])
					time.Sleep(ms)
					all.Go(func() { tryAgainAndAgain(ctx, m, &got, &refused) })
				}
				time.Sleep(time.Second)
				began := time.Now()
				require.NoError(t, held.Unlock(t.Context()))
				var lease *redlock.Lease
				select {
				case lease = <-set:
				case <-time.After(5 * time.Second):
				}
				t.Logf("the set has its names after %v; %d TryLocks were granted, %d refused", time.Since(began), got.Load(), refused.Load())
				assert.Less(t, time.Since(began), 3*time.Second)
				stop()
				all.Wait()
				if lease == nil {
					lease = <-set
				}
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// tryAgainAndAgain asks for a lock until ctx ends, with pauses of 10 ms.
func tryAgainAndAgain(ctx context.Context, m *redlock.Mutex, got, refused *atomic.Int64) {
	for ctx.Err() == nil {
		if lease, err := m.TryLock(ctx); err == nil {
			got.Add(1)
			_ = lease.Unlock(context.Background())
		} else {
			refused.Add(1)
		}
		time.Sleep(10 * ms)
	}
}
