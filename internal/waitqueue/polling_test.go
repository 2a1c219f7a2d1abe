package waitqueue_test

import (
	"context"
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

// A lock is free for three seconds and a ttl at most while a client waits, whichever clients die.

// subscribe makes all nodes able to wake a client.
func subscribe(t *testing.T, c *redlock.Client) {
	queue := testhook.Engine(c).Queue()
	require.NoError(t, queue.Listen(t.Context()))
	for queue.Up().Len() < len(testhook.Engine(c).Cluster.Nodes()) {
		time.Sleep(ms)
	}
}

// A client dies when its parked attempt was executed, which keeps the lock for it for half a second. Or it is far away: with
// 160 ms of round trip it asks once more, and has the lock for a whole ttl.
func TestClientThatDiesWithAnExecutedAttemptDelaysTheQueueForSeconds(t *testing.T) {
	for _, far := range []bool{false, true} {
		for _, waiters := range []int{1, 5, 30, 100} {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				a, c := net.Client(), testnet.ListeningClient(t, net)
				b, pools := net.CuttableClient()
				subscribe(t, b)
				most := protocol.ReservationTTL + 3*time.Second
				if far {
					most = 10*time.Second + 3*time.Second
					for _, p := range pools {
						p.Node.Set(func(*testnet.Node) {
							for _, l := range p.Links {
								l.Delay = 80 * ms
							}
						})
					}
				}
				lease := net.Must(a.Mutex("x").Lock(t.Context()))
				synctest.Wait() // all nodes have granted it before another client asks
				first := time.Now()
				leave, gone := testnet.QueueUp(t, b, waiters)
				_, served := testnet.QueueUp(t, c, 1)
				if far {
					time.Sleep(200*ms - time.Since(first))
				} else {
					testnet.Hold(pools, true)
				}
				require.NoError(t, lease.Unlock(t.Context()))
				synctest.Wait()
				require.NotContains(t, holderOf(net.Nodes[0]), protocol.Reservation, "a parked attempt was executed")
				require.Equal(t, protocol.ReservationTTL, net.Nodes[0].Redis.TTL("redlock:x"))
				for far && net.Nodes[0].Redis.TTL("redlock:x") <= protocol.ReservationTTL {
					time.Sleep(ms)
				}
				testnet.Hold(pools, true)
				defer testnet.Hold(pools, false)
				took := testnet.Elapsed(served.Wait)
				t.Logf("%d dead waiters, far away: %t: %v", waiters, far, took)
				assert.Less(t, took, most)
				testnet.Hold(pools, false)
				leave()
				gone.Wait()
			})
		}
	}
}

// A process holds the lock, and a hundred of its callers wait. Behind them two waiters of another client stand. One of the two
// may leave before the process dies.
func TestRemainingWaiterNoticesThatTheHolderDied(t *testing.T) {
	for _, leaver := range []string{"the first leaves", "the last leaves", "nobody leaves"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, c := net.Client(), net.Client()
			b, pools := net.CuttableClient()
			lease := net.Must(a.Mutex("x").Lock(t.Context()))
			synctest.Wait() // all nodes have granted it before another client asks
			go func() {
				if l, err := b.Mutex("x").Lock(t.Context()); err == nil {
					<-l.Done()
					_ = l.Unlock(t.Context())
				}
			}()
			time.Sleep(ms)
			leaveDead, gone := testnet.QueueUp(t, b, 100)
			leaveFirst, first := testnet.QueueUp(t, c, 1)
			leaveLast, last := testnet.QueueUp(t, c, 1)
			time.Sleep(500 * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(3 * time.Second)

			served := first
			switch leaver {
			case "the first leaves":
				leaveFirst()
				served = last
			case "the last leaves":
				leaveLast()
			case "nobody leaves":
				time.Sleep(17 * time.Second)
			}
			time.Sleep(ms)
			testnet.Hold(pools, true)
			defer testnet.Hold(pools, false)
			took := testnet.Elapsed(served.Wait)
			t.Logf("%s: %v", leaver, took)
			assert.Less(t, took, 10*time.Second+3*time.Second, leaver)
			testnet.Hold(pools, false)
			leaveDead()
			gone.Wait()
		})
	}
}

// holdUntilDone acquires a lock, and releases it when ctx ends.
func holdUntilDone(ctx context.Context, m *redlock.Mutex) {
	if lease, err := m.Lock(ctx); err == nil {
		<-ctx.Done()
		_ = lease.Unlock(context.WithoutCancel(ctx))
	}
}

// A machine dies with the holder and the clients of the next positions in the queue.
func TestManyClientsThatDieTogetherDelayTheQueueForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const clients = 10
		var dead []*testnet.Cuttable
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for range clients {
			b, pools := net.CuttableClient()
			dead = append(dead, pools...)
			gone.Go(func() { holdUntilDone(ctx, b.Mutex("x")) })
			time.Sleep(10 * ms)
		}
		c := net.Client()
		_, served := testnet.QueueUp(t, c, 1)
		time.Sleep(20 * time.Second)
		testnet.Hold(dead, true)
		defer testnet.Hold(dead, false)
		left := net.Nodes[0].Redis.TTL("redlock:x")
		took := testnet.Elapsed(served.Wait) - left
		t.Logf("%d dead clients: %v after the end of the keys", clients, took)
		assert.Less(t, took, 3*time.Second+100*ms)
		cancel()
		testnet.Hold(dead, false)
		gone.Wait()
	})
}

// All that were ahead of the last client in the queue have died. A TryLock finds the lock free,
// which reserves it for one of the dead: only that last client can notice it.
func TestTryLockThatFindsTheLockFreeDoesNotDelayTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var dead []*testnet.Cuttable
		var gone sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			b, pools := net.CuttableClient()
			dead = append(dead, pools...)
			gone.Go(func() { holdUntilDone(ctx, b.Mutex("x")) })
			time.Sleep(10 * ms)
			for range 20 {
				gone.Go(func() {
					if lease, err := b.Mutex("x").Lock(ctx); err == nil {
						_ = lease.Unlock(t.Context())
					}
				})
			}
			time.Sleep(10 * ms)
		}
		c, passing := net.Client(), net.Client()
		_, served := testnet.QueueUp(t, c, 1)
		time.Sleep(20 * time.Second)
		testnet.Hold(dead, true)
		time.Sleep(net.Nodes[0].Redis.TTL("redlock:x") + 50*ms)
		net.Held(passing.Mutex("x").TryLock(t.Context()))
		took := testnet.Elapsed(served.Wait)
		t.Log(took)
		require.Less(t, took, protocol.ReservationTTL+3*time.Second)
		cancel()
		testnet.Hold(dead, false)
		gone.Wait()
	})
}
