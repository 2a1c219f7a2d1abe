package waitqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// 32 readers wait, each of a client of its own. They get in with the messages of the release:
// none of them sends anything.
func TestBatchOfReadersEntersOneTripAfterTheWritersRelease(t *testing.T) {
	const trip = 20 * ms
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder := net.Client()
		var clients []*redlock.Client
		for range 32 {
			c := testnet.ListeningClient(t, net)
			c.RWMutex("x") // loads the scripts of readers, at a node behind those of all other clients
			clients = append(clients, c)
		}
		synctest.Wait()
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		net.Delay(trip / 2)
		var readers []<-chan *redlock.Lease
		for _, c := range clients {
			readers = append(readers, net.Begin(c.RWMutex("x").RLock))
		}
		time.Sleep(60 * ms) // they have been refused, and their attempts are parked
		net.ClearLogs()
		began := time.Now()
		go func() { assert.NoError(t, writer.Unlock(t.Context())) }()
		for _, entered := range readers {
			lease := <-entered
			require.Equal(t, trip, time.Since(began))
			require.GreaterOrEqual(t, lease.Token(), writer.Token())
		}
		for _, n := range net.Nodes {
			require.Zero(t, n.Executed("read"), "no reader asked again")
		}
	})
}

// More readers than a release lets in: the first that come let in the others, also if none of
// them asks again since their parked attempts were executed.
func TestHundredReadersEnterWithinAFewTrips(t *testing.T) {
	for _, wait := range []time.Duration{20 * ms, time.Second} { // with parked attempts, and without
		testHundredReaders(t, wait)
	}
}

func testHundredReaders(t *testing.T, wait time.Duration) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		synctest.Wait() // the writer has all nodes
		var readers []<-chan *redlock.Lease
		for range 100 {
			readers = append(readers, net.Begin(c.RWMutex("x").RLock))
		}
		time.Sleep(wait)
		net.Delay(10 * ms)
		began := time.Now()
		require.NoError(t, writer.Unlock(t.Context()))
		for _, entered := range readers {
			lease := <-entered
			defer func() { assert.NoError(t, lease.Unlock(t.Context())) }()
		}
		require.LessOrEqual(t, time.Since(began), 200*ms)
	})
}

// 16 readers come and go all the time; each comes while others hold the lock. A writer gets in
// as soon as those are gone that held it when it came.
func TestStreamOfReadersDoesNotStarveAWriter(t *testing.T) {
	const section = 50 * ms
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var stream sync.WaitGroup
		defer stream.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for i := range 16 {
			m := testnet.ListeningClient(t, net).RWMutex("x")
			stream.Go(func() {
				time.Sleep(time.Duration(i) * 3 * ms)
				for ctx.Err() == nil {
					if lease, err := m.RLock(ctx); err == nil {
						time.Sleep(section)
						assert.NoError(t, lease.Unlock(t.Context()))
					}
				}
			})
		}
		m := testnet.ListeningClient(t, net).RWMutex("x")
		for range testnet.Tries(5, 20) {
			time.Sleep(200 * ms)
			asked := time.Now()
			writer := net.Must(m.Lock(t.Context()))
			// One phase of readers; and a waiter that one node has woken awaits the others.
			require.LessOrEqual(t, time.Since(asked), section+firstQuorumWait+10*ms)
			require.NoError(t, writer.Unlock(t.Context()))
		}
	})
}

func TestReadersBehindAWriterThatLeavesEnterAtOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		first := net.Must(a.RWMutex("x").RLock(t.Context()))
		ctx, giveUp := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := b.RWMutex("x").Lock(ctx)
			left <- err
		}()
		time.Sleep(50 * ms)
		entered := net.Begin(c.RWMutex("x").RLock)
		time.Sleep(time.Second)
		require.Empty(t, entered, "the writer asked before")
		held := net.Held(c.RWMutex("x").TryRLock(t.Context()))
		require.True(t, held.Shared, "a TryRLock gives way to it too")

		giveUp()
		require.ErrorIs(t, <-left, redlock.ErrHeld)
		synctest.Wait()
		second := <-entered
		require.NoError(t, second.Unlock(t.Context()))
		require.NoError(t, first.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoLines()
	})
}

// Readers and writers of many clients: nobody passes a writer that asked before.
func TestNobodyPassesAWriterThatAskedBefore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder := net.Client()
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		kinds := "rrwrwwrrrrwrwr" // in the order in which they ask
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i, kind := range kinds {
			m := testnet.ListeningClient(t, net).RWMutex("x")
			lock := m.Lock
			if kind == 'r' {
				lock = m.RLock
			}
			all.Go(func() {
				lease, err := lock(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(20 * ms)
				assert.NoError(t, lease.Unlock(t.Context()))
			})
			time.Sleep(10 * ms)
		}
		require.NoError(t, writer.Unlock(t.Context()))
		all.Wait()
		for at, i := range order {
			for _, earlier := range order[at+1:] {
				require.False(t, earlier < i && (kinds[earlier] == 'w' || kinds[i] == 'w'), "%d before %d in %s: %v", i, earlier, kinds, order)
			}
		}
		time.Sleep(time.Second)
		net.RequireNoKeys()
		net.RequireNoLines()
		net.RequireNothingParked()
	})
}

// Clients that stand in the queue with several callers of both kinds, and the shares of turns
// that each client gets.
func TestReadersAndWritersOfManyClientsGetTheirTurns(t *testing.T) {
	testnet.SlowWithRace(t)
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const turns = 2000
		var mu sync.Mutex
		served := make(map[string]int)
		left := turns
		var all sync.WaitGroup
		for i := range 8 {
			m := testnet.ListeningClient(t, net).RWMutex("x")
			for _, kind := range []string{"r", "w"} {
				lock := m.Lock
				if kind == "r" {
					lock = m.RLock
				}
				all.Go(func() {
					for {
						lease, err := lock(t.Context())
						assert.NoError(t, err)
						mu.Lock()
						served[fmt.Sprint(kind, i)]++
						left--
						more := left > 0
						mu.Unlock()
						time.Sleep(2 * ms)
						assert.NoError(t, lease.Unlock(t.Context()))
						if !more {
							return
						}
					}
				})
			}
		}
		all.Wait()
		for kind := range 2 {
			for i := range 8 {
				share := float64(served[fmt.Sprint([]string{"r", "w"}[kind], i)]) / (float64(turns) / 16)
				require.InDelta(t, 1, share, 0.25, "%v", served)
			}
		}
	})
}

func TestDeadReaderDoesNotLiveAsLongAsOthersRenew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithTTL(3*time.Second)), net.Client(redlock.WithTTL(3*time.Second))
		dead := net.Must(a.RWMutex("x").RLock(t.Context()))
		alive := net.Must(b.RWMutex("x").RLock(t.Context()))
		net.Die(a, dead)
		time.Sleep(3*time.Second + 10*ms)
		require.Zero(t, net.Holders(dead))
		require.True(t, alive.Valid())
		time.Sleep(10 * time.Second)
		require.NoError(t, alive.Unlock(t.Context()))
		writer, err := b.RWMutex("x").TryLock(t.Context())
		require.NoError(t, err, "nobody holds it")
		require.NoError(t, writer.Unlock(t.Context()))
	})
}

func TestExecutedReadThatNobodyTakesEndsSoon(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		dying, pools := net.CuttableClient()
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		go func() { _, _ = dying.RWMutex("x").RLock(ctx) }()
		time.Sleep(50 * ms)
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		require.NoError(t, writer.Unlock(t.Context()))
		next := net.Must(c.RWMutex("x").Lock(t.Context()))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestReadersThatMissedTheirWakeupsEnterTogether(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		var readers []<-chan *redlock.Lease
		for range 30 {
			readers = append(readers, net.Begin(c.RWMutex("x").RLock))
		}
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Lose = func(data []byte) bool { return strings.Contains(string(data), "message") }
			})
		}
		began := time.Now()
		require.NoError(t, writer.Unlock(t.Context()))
		synctest.Wait()
		time.Sleep(ms)
		net.Nodes.Set(func(n *testnet.Node) { n.Lose = nil })
		var took []time.Duration
		for _, entered := range readers {
			lease := <-entered
			took = append(took, time.Since(began).Round(ms))
			defer func() { assert.NoError(t, lease.Unlock(t.Context())) }()
		}
		require.LessOrEqual(t, time.Since(began), 3*time.Second, "%v", took)
	})
}

// A writer holds the lock at four of five nodes; the fifth lost its key. Eight readers wait. At the
// fifth node each of them gets a share, lets others in, gives the share back, and joins the queue
// again.
func TestReadersDoNotWakeEachOtherInACircle(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		holder := net.Client(redlock.WithoutRenewal(), redlock.WithTTL(time.Minute))
		writer := net.Must(holder.RWMutex("x").Lock(t.Context()))
		synctest.Wait()
		// The fifth node has the share of a reader that died in the midst of an attempt.
		net.Nodes[4].Redis.Del("redlock:x")
		net.Nodes[4].Run(protocol.Read, 4, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x",
			"of a dead reader", 60_000, "7", 1, "", "", "", 0)
		net.Delay(3 * ms)
		var entered []<-chan *redlock.Lease
		for range 8 {
			entered = append(entered, net.Begin(testnet.ListeningClient(t, net).RWMutex("x").RLock))
			time.Sleep(10 * ms)
		}
		time.Sleep(2 * time.Second)
		net.ClearLogs()
		time.Sleep(20 * time.Second)
		asked := net.Nodes[0].Attempts()
		require.NoError(t, writer.Unlock(t.Context()))
		for _, got := range entered {
			lease := <-got
			defer func() { assert.NoError(t, lease.Unlock(t.Context())) }()
		}
		assert.LessOrEqual(t, asked, 8*40)
	})
}
