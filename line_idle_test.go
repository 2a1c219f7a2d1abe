package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lock is free for three seconds and a ttl at most while a client waits, whichever
// clients die.

// subscribed makes all nodes able to call a client.
func subscribed(t *testing.T, c *Client) {
	require.NoError(t, c.line.turnOn(t.Context()))
	for {
		able := 0
		for _, serial := range c.line.hearing() {
			if serial != 0 {
				able++
			}
		}
		if able == len(c.nodes) {
			return
		}
		time.Sleep(ms)
	}
}

// kill cuts clients off, as if their processes had died, or connects them again, so that
// the test can end.
func kill(pools []*cuttable, dead bool) {
	for _, p := range pools {
		p.hold(dead)
	}
}

func TestAClientThatDiesWithAnExecutedBidDelaysTheLineForSeconds(t *testing.T) {
	for _, waiters := range []int{1, 5, 30, 100} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, c := net.client(), hearingClient(t, net)
			b, pools := net.cuttableClient()
			subscribed(t, b)
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // all nodes have granted it before anybody else asks
			leave, gone := queueUp(t, b, waiters)
			_, served := queueUp(t, c, 1)
			kill(pools, true)
			defer kill(pools, false)
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			require.NotContains(t, net.nodes[0].holderOf(), reservation, "a bid was executed")
			require.Equal(t, claim, net.nodes[0].redis.TTL("redlock:x"))
			took := elapsed(served.Wait)
			t.Logf("%d dead waiters: %v", waiters, took)
			assert.Less(t, took, claim+3*time.Second)
			kill(pools, false)
			leave()
			gone.Wait()
		})
	}
}

// With 160 ms of round trip, a waiter whose bid was executed asks once more, and has the
// lock for a whole ttl.
func TestAClientThatDiesAfterItTookItsExecutedBidOverDelaysTheLineForATTL(t *testing.T) {
	for _, waiters := range []int{1, 5, 30, 100} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, c := net.client(), hearingClient(t, net)
			b, pools := net.cuttableClient()
			subscribed(t, b)
			for _, p := range pools {
				p.testNode.set(func(*testNode) {
					for _, l := range p.links {
						l.delay = 80 * ms
					}
				})
			}
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // all nodes have granted it before anybody else asks
			first := time.Now()
			leave, gone := queueUp(t, b, waiters)
			_, served := queueUp(t, c, 1)
			time.Sleep(200*ms - time.Since(first))
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			require.Equal(t, claim, net.nodes[0].redis.TTL("redlock:x"), "a bid was executed")
			for net.nodes[0].redis.TTL("redlock:x") <= claim {
				time.Sleep(ms)
			}
			kill(pools, true)
			defer kill(pools, false)
			took := elapsed(served.Wait)
			t.Logf("%d dead waiters: %v", waiters, took)
			assert.Less(t, took, b.opts.ttl+3*time.Second)
			kill(pools, false)
			leave()
			gone.Wait()
		})
	}
}

// A process holds the lock, with a hundred waiters behind it. Of the two of another
// client behind these, one leaves before the process dies.
func TestTheWaitersThatStayNoticeThatAHolderDies(t *testing.T) {
	for _, leaver := range []string{"the first leaves", "the last leaves"} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, c := net.client(), net.client()
			b, pools := net.cuttableClient()
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // all nodes have granted it before anybody else asks
			go func() {
				if l, err := b.Mutex("x").Lock(t.Context()); err == nil {
					<-l.Done()
					_ = l.Unlock(t.Context())
				}
			}()
			time.Sleep(ms)
			leaveDead, gone := queueUp(t, b, 100)
			leaveFirst, first := queueUp(t, c, 1)
			leaveLast, last := queueUp(t, c, 1)
			time.Sleep(500 * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(3 * time.Second)
			served := last
			if leaver == "the last leaves" {
				leaveLast()
				served = first
			} else {
				leaveFirst()
			}
			time.Sleep(ms)
			kill(pools, true)
			defer kill(pools, false)
			took := elapsed(served.Wait)
			t.Logf("%s: %v", leaver, took)
			assert.Less(t, took, b.opts.ttl+3*time.Second, leaver)
			kill(pools, false)
			leaveDead()
			gone.Wait()
		})
	}
}

// holdUntilDone acquires a lock, and releases it when ctx ends.
func holdUntilDone(ctx context.Context, m *Mutex) {
	if lease, err := m.Lock(ctx); err == nil {
		<-ctx.Done()
		_ = lease.Unlock(context.WithoutCancel(ctx))
	}
}

// A machine dies with the holder and the clients of the next places in line.
func TestManyClientsThatDieTogetherDelayTheLineForSeconds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		const clients = 10
		var dead []*cuttable
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for range clients {
			b, pools := net.cuttableClient()
			dead = append(dead, pools...)
			gone.Go(func() { holdUntilDone(ctx, b.Mutex("x")) })
			time.Sleep(10 * ms)
		}
		c := net.client()
		_, served := queueUp(t, c, 1)
		time.Sleep(20 * time.Second)
		kill(dead, true)
		defer kill(dead, false)
		left := net.nodes[0].redis.TTL("redlock:x")
		took := elapsed(served.Wait) - left
		t.Logf("%d dead clients: %v after the end of the keys", clients, took)
		assert.Less(t, took, 3*time.Second+100*ms)
		cancel()
		kill(dead, false)
		gone.Wait()
	})
}

// All that were ahead of the last client in line have died. A TryLock finds the lock free,
// which reserves it for one of the dead: only that last client can notice it.
func TestATryLockThatFindsTheLockFreeDoesNotDelayTheLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var dead []*cuttable
		var gone sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			b, pools := net.cuttableClient()
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
		c, passing := net.client(), net.client()
		_, served := queueUp(t, c, 1)
		time.Sleep(20 * time.Second)
		kill(dead, true)
		time.Sleep(net.nodes[0].redis.TTL("redlock:x") + 50*ms)
		_, err := passing.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		require.Less(t, elapsed(served.Wait), 4*time.Second)
		cancel()
		kill(dead, false)
		gone.Wait()
	})
}
