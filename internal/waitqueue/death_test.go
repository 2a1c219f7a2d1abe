package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Whatever became of those ahead of it, a waiter notices when it is its turn.

func TestLastWaiterNoticesThatAllAheadLeftAndTheHolderDied(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithTTL(3*time.Second)), net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
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
		lease, err := first.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		var died, next time.Duration
		for i := range 12 {
			c := net.Client(redlock.WithTTL(ttl))
			wg.Go(func() {
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
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

// A process holds the lock, has all the next positions in the queue too, and dies after a while.
func TestProcessThatDiesWithTheHolderAndManyWaitersDelaysTheQueueForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		b, pools := net.CuttableClient()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		go func() {
			if l, err := b.Mutex("x").Lock(t.Context()); err == nil {
				<-l.Done()
				_ = l.Unlock(t.Context())
			}
		}()
		time.Sleep(ms)
		leave, gone := testnet.QueueUp(t, b, 100)
		_, served := testnet.QueueUp(t, c, 1)
		time.Sleep(500 * ms)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(20 * time.Second)
		testnet.Hold(pools, true)
		took := testnet.Elapsed(served.Wait)
		testnet.Hold(pools, false)
		leave()
		gone.Wait()
		t.Log(took)
		require.Less(t, took, 13*time.Second, "the ttl and three seconds")
	})
}

func TestGrantThatComesTooLateLeavesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := testnet.QueueUp(t, c, 1) // its callers queue from now on
		time.Sleep(500 * ms)
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
		net.Delay(40 * ms)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
			_, err := c.Mutex("x", redlock.WithMaxHold(50*ms)).Lock(ctx)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			cancel()
			time.Sleep(200 * ms)
			net.RequireNoKeys()
			net.RequireNoLines()
			require.Zero(t, testhook.Engine(c).Queue().Tickets())
		}
	})
}
