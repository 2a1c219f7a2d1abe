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
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Many clients wait, and die together. The wait of a caller behind them must hardly grow with their number.

// kind makes a call of a client that waits.
type kind = func(*redlock.Client) locks

func mutexOf(name string) kind { return func(c *redlock.Client) locks { return c.Mutex(name).Lock } }
func setOf(names ...string) kind {
	return func(c *redlock.Client) locks { return c.Multi(names).Lock }
}
func readerOfX(c *redlock.Client) locks { return c.RWMutex("x").RLock }
func permitOfX(c *redlock.Client) locks { return testnet.Acquire(c.Semaphore("x", 1), 1) }

// dyingClients makes clients, and gives each client a waiter of each kind. die cuts all clients off. end connects them again
// and ends their waiters.
func dyingClients(t *testing.T, net *testnet.Net, clients int, of ...kind) (die, end func()) {
	ctx, leave := context.WithCancel(t.Context())
	var all []*testnet.Cuttable
	var callers sync.WaitGroup
	for range clients {
		c, pools := net.CuttableClient()
		subscribe(t, c)
		for _, lock := range of {
			callers.Go(func() { _, _ = lock(c)(ctx) })
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
					held := net.Must(net.Client().RWMutex("a").RLock(t.Context()))
					synctest.Wait() // it has all nodes
					die, end := dyingClients(t, net, dead.clients, slices.Repeat([]kind{mutexOf("a")}, dead.callers)...)
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
		held := net.Must(net.Client().RWMutex("a").RLock(t.Context()))
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
					net.Held(reader.TryRLock(t.Context()))
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

// The machines of the first clients in the queue are cut off, and the nodes count their subscriptions as standing. A
// lock is handed to one after the other of them, until the next live one looks. Neither their number nor that of their
// waiters matters much.
func TestHandOffToClientsThatAreCutOffDelaysTheNextForSeconds(t *testing.T) {
	mutex, set := mutexOf("x"), setOf("x", "y")
	for name, kinds := range map[string]struct {
		held kind
		cut  []kind
		next kind
	}{
		"a mutex":                           {mutex, []kind{mutex}, mutex},
		"the only permit":                   {permitOfX, []kind{permitOfX}, permitOfX},
		"a reader behind writers":           {mutex, []kind{mutex}, readerOfX},
		"a set":                             {set, []kind{set}, set},
		"a mutex behind sets":               {set, []kind{set}, mutexOf("y")},
		"a set behind overlapping sets":     {set, []kind{set}, setOf("y", "z")},
		"a set behind mutexes of each name": {set, []kind{mutex, mutexOf("y")}, set},
	} {
		for _, row := range []struct {
			clients, waiters int
			most             time.Duration
		}{{9, 1, 5 * time.Second}, {9, 20, 5 * time.Second}, {20, 1, 6 * time.Second}, {27, 1, 6500 * ms},
			{1, 1, 3 * time.Second}, {1, 100, 3 * time.Second}, {54, 1, 8 * time.Second}}[:testnet.Tries(6, 7)] {
			t.Run(fmt.Sprintf("%s, %d clients with %d waiters", name, row.clients, row.waiters), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					next := testnet.ListeningClient(t, net)
					held := net.Must(kinds.held(net.Client())(t.Context()))
					synctest.Wait() // it has all nodes
					die, end := dyingClients(t, net, row.clients, slices.Repeat(kinds.cut, row.waiters)...)
					entered := waitFor(t.Context(), kinds.next(next))
					time.Sleep(3 * time.Second)
					die()
					took := testnet.Elapsed(func() {
						assert.NoError(t, held.Unlock(t.Context()))
						held = <-entered
					})
					end()
					t.Log(took)
					assert.Less(t, took, row.most)
					require.NoError(t, held.Unlock(t.Context()))
				})
			})
		}
	}
}

// Whatever became of those ahead of it, a waiter notices when it is its turn.

func TestLastWaiterNoticesThatAllAheadLeftAndTheHolderDied(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithTTL(3*time.Second)), net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait() // all nodes have its key: Lock awaits a quorum only
		leave, gone := testnet.QueueUp(t, b, 100)
		_, served := testnet.QueueUp(t, c, 1)
		time.Sleep(500 * ms)
		leave()
		gone.Wait()
		net.Die(a, lease)
		left := net.Nodes[0].Redis.TTL("redlock:x")
		require.LessOrEqual(t, testnet.Elapsed(served.Wait), left+200*ms)
	})
}

// Each waiter is the foremost of its client, and looks soon after the end of the keys that it saw when it asked.
func TestHolderThatDiesAmidHandOffsDelaysTheQueueForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const ttl = 3 * time.Second
		first := net.Client()
		lease := net.Must(first.Mutex("x").Lock(t.Context()))
		var wg sync.WaitGroup
		var died, next time.Duration
		for i := range 12 {
			c := net.Client(redlock.WithTTL(ttl))
			wg.Go(func() {
				lease := net.Must(c.Mutex("x").Lock(t.Context()))
				switch i {
				case 5:
					net.Die(c, lease)
					died = net.Clock.Now()
					return
				case 6:
					next = net.Clock.Now()
				}
				time.Sleep(2 * ms)
				require.NoError(t, lease.Unlock(t.Context()))
			})
			time.Sleep(ms)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		wg.Wait()
		t.Log(next - died)
		require.LessOrEqual(t, next-died, ttl+3*time.Second)
	})
}

func TestGrantThatComesTooLateLeavesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		_, served := testnet.QueueUp(t, c, 1) // its callers queue from now on
		time.Sleep(500 * ms)
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
		net.Delay(40 * ms)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
			net.NoQuorum(c.Mutex("x", redlock.WithMaxHold(50*ms)).Lock(ctx))
			cancel()
			time.Sleep(200 * ms)
			net.RequireNoKeys()
			net.RequireNoLines()
			require.Zero(t, testhook.Engine(c).Queue().Tickets())
		}
	})
}

// A ticket with which nobody waits is the first in the queues, as after a restart of servers with old data. Its client
// lives, so it would keep its place for ever: when the nodes call it, the client takes it out.
func TestTicketWithWhichNobodyWaitsKeepsOthersOutForSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		queue, suffix string // of the ticket
		take          kind
	}{
		"of a mutex": {"redlock::queue:redlock:x", "", mutexOf("x")},
		"of a set":   {"redlock::queue:redlock:x", protocol.SetSuffix, mutexOf("x")},
		"of permits": {"redlock::slots:redlock:x", protocol.PermitsSuffix(1, 1), permitOfX},
	} {
		for _, at := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, at %d nodes", name, at), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					b, d := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
					held, err := c.take(net.Client())(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					first := waitFor(t.Context(), c.take(d))
					second := waitFor(t.Context(), c.take(b))
					time.Sleep(5 * time.Second)
					stray := "0000000000000001-" + testhook.Engine(b).ID + "-0000000099" + c.suffix
					for _, n := range net.Nodes[:at] {
						_, err := n.Redis.ZAdd(c.queue, 0, stray)
						require.NoError(t, err)
					}
					took := testnet.Elapsed(func() {
						require.NoError(t, held.Unlock(t.Context()))
						held = <-first
					})
					t.Log(took)
					require.Less(t, took, 3*time.Second)
					for _, n := range net.Nodes[:at] {
						tickets, _ := n.Redis.ZMembers(c.queue)
						require.NotContains(t, tickets, stray)
						require.Greater(t, aliveAt(n, testhook.Engine(b).ID), protocol.ReservationTTL, "it has answered")
					}
					require.NoError(t, held.Unlock(t.Context()))
					require.NoError(t, (<-second).Unlock(t.Context()))
				})
			})
		}
	}
}
