package waitqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Many clients wait, and die together. The wait of a caller behind them must hardly grow with their number.

type mutexOf = func(*redlock.Client) *redlock.Mutex

func mutexA(c *redlock.Client) *redlock.Mutex { return c.Mutex("a") }
func mutexB(c *redlock.Client) *redlock.Mutex { return c.Mutex("b") }
func setAB(c *redlock.Client) *redlock.Mutex  { return c.Multi([]string{"a", "b"}) }
func setBC(c *redlock.Client) *redlock.Mutex  { return c.Multi([]string{"b", "c"}) }

// dyingClients makes so many clients, of which each has a caller of Lock in the queues. die cuts all of them
// off, and end connects them again and ends their callers.
func dyingClients(t *testing.T, net *testnet.Net, clients int, of ...mutexOf) (die, end func()) {
	ctx, leave := context.WithCancel(t.Context())
	var all []*testnet.Cuttable
	var callers sync.WaitGroup
	for range clients {
		c, pools := net.CuttableClient()
		subscribe(t, c)
		for _, mutex := range of {
			callers.Go(func() { _, _ = mutex(c).Lock(ctx) })
		}
		all = append(all, pools...)
		time.Sleep(10 * ms)
	}
	return func() { testnet.Hold(all, true) }, func() {
		testnet.Hold(all, false)
		leave()
		callers.Wait()
	}
}

func TestManyDeadClientsThatWaitedDelayTheNextOneForSeconds(t *testing.T) {
	const ttl = 2 * time.Second
	for _, row := range []struct {
		name string
		dead []mutexOf
		next mutexOf
	}{
		{"a mutex behind mutexes", []mutexOf{mutexA}, mutexA},
		{"a set behind sets", []mutexOf{setAB}, setAB},
		{"a mutex behind sets", []mutexOf{setAB}, mutexB},
		{"a set behind overlapping sets", []mutexOf{setAB}, setBC},
		{"a set behind mutexes of each name", []mutexOf{mutexA, mutexB}, setAB},
	} {
		for _, dead := range []int{27, 9, 54}[:testnet.Tries(1, 3)] {
			t.Run(fmt.Sprintf("%s, %d clients", row.name, dead), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					holder, c := net.Client(redlock.WithTTL(ttl)), testnet.ListeningClient(t, net)
					lease, err := setAB(holder).Lock(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					die, end := dyingClients(t, net, dead, row.dead...)
					next := queued(t.Context(), row.next(c))
					time.Sleep(3 * time.Second)
					die()
					took := testnet.Elapsed(func() {
						assert.NoError(t, lease.Unlock(t.Context()))
						lease = <-next
					})
					t.Log(took)
					assert.Less(t, took, ttl+3*time.Second+time.Duration(dead/9)*500*ms)
					assert.NoError(t, lease.Unlock(t.Context()))
					end()
				})
			})
		}
	}
}

// Readers hold the lock, and only the dead writers keep others out.
func TestManyDeadWritersKeepReadersOutForSeconds(t *testing.T) {
	for name, read := range map[string]func(*testing.T, *redlock.Client) *redlock.Lease{
		"RLock": func(t *testing.T, c *redlock.Client) *redlock.Lease {
			lease, err := c.RWMutex("a").RLock(t.Context())
			require.NoError(t, err)
			return lease
		},
		"RLock with a back-off": func(t *testing.T, c *redlock.Client) *redlock.Lease {
			lease, err := c.RWMutex("a", redlock.WithBackoff(func(int) time.Duration { return 100 * ms })).RLock(t.Context())
			require.NoError(t, err)
			return lease
		},
		"TryRLock": func(t *testing.T, c *redlock.Client) *redlock.Lease {
			for {
				if lease, err := c.RWMutex("a").TryRLock(t.Context()); err == nil {
					return lease
				}
				time.Sleep(50 * ms)
			}
		},
	} {
		for _, dead := range []struct{ clients, callers int }{{27, 1}, {1, 20}, {9, 1}, {9, 10}, {54, 1}}[:testnet.Tries(2, 5)] {
			t.Run(fmt.Sprintf("%s, %d clients with %d callers", name, dead.clients, dead.callers), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					c := testnet.ListeningClient(t, net)
					held, err := net.Client().RWMutex("a").RLock(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					die, end := dyingClients(t, net, dead.clients, slices.Repeat([]mutexOf{mutexA}, dead.callers)...)
					entered := make(chan *redlock.Lease, 1)
					go func() { entered <- read(t, c) }()
					time.Sleep(10 * time.Second)
					require.Empty(t, entered, "the writers live")
					die()
					var lease *redlock.Lease
					took := testnet.Elapsed(func() { lease = <-entered })
					t.Log(took)
					assert.Less(t, took, 4*time.Second+time.Duration(dead.clients/9)*500*ms)
					assert.NoError(t, lease.Unlock(t.Context()))
					assert.NoError(t, held.Unlock(t.Context()))
					end()
				})
			})
		}
	}
}

// The writers' clients ask every half a minute, so each is in doubt.
func TestReadersThatTryAgainAndAgainSeldomChallengeLiveWriters(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const clients, seconds = 5, 10
		held, err := net.Client().RWMutex("a").RLock(t.Context())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range clients {
			c := testnet.ListeningClient(t, net)
			for range 10 {
				callers.Go(func() { _, _ = c.Mutex("a").Lock(ctx) })
			}
		}
		reader := net.Client().RWMutex("a")
		time.Sleep(10 * time.Second)
		attempts := func(try bool) int {
			net.ClearLogs()
			for range seconds * time.Second / (20 * ms) {
				if try {
					_, err := reader.TryRLock(t.Context())
					require.ErrorIs(t, err, redlock.ErrHeld)
				}
				time.Sleep(20 * ms)
			}
			return net.Nodes[0].Executed("acquire")
		}
		before, beside := attempts(false), attempts(true)
		t.Logf("%d attempts of writers, and %d beside those of a reader", before, beside)
		most := len(net.Nodes) * clients * seconds / 2
		assert.LessOrEqual(t, beside-before, most, "each node challenges each client every two seconds at most")
		waiting, err := net.Nodes[0].Redis.ZMembers("redlock::queue:redlock:a")
		require.NoError(t, err)
		assert.Equal(t, clients*10, len(waiting), "all of them still wait")
		leave()
		callers.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}
