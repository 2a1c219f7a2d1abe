package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Whose turn it is notices, whatever became of those before.

// queueUp puts so many waiters of a client in line, one after the other.
func queueUp(t *testing.T, c *Client, n int) (leave context.CancelFunc, served *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(t.Context())
	served = new(sync.WaitGroup)
	for range n {
		served.Go(func() {
			if lease, err := c.Mutex("x").Lock(ctx); err == nil {
				_ = lease.Unlock(ctx)
			}
		})
		time.Sleep(ms)
	}
	return cancel, served
}

func TestTheLastInLineNoticesThatAllBeforeItLeftAndTheHolderDied(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b, c := net.client(WithTTL(3*time.Second)), net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // all nodes have its key: Lock awaits a quorum only
		leave, gone := queueUp(t, b, 100)
		_, served := queueUp(t, c, 1)
		time.Sleep(500 * ms)
		leave()
		gone.Wait()
		a.die(lease)
		left := net.nodes[0].redis.TTL("redlock:x")
		require.LessOrEqual(t, elapsed(served.Wait), left+200*ms)
	})
}

// Who joined a long line, and came near its head by hand-overs, has been told so.
func TestAHolderInTheMidstOfHandOversDies(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		const ttl = 3 * time.Second
		first := net.client()
		lease, err := first.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		var died, next time.Duration
		for i := range 12 {
			c := net.client(WithTTL(ttl))
			wg.Go(func() {
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				switch i {
				case 5:
					c.die(lease)
					died = net.clock.now()
					return
				case 6:
					next = net.clock.now()
				}
				time.Sleep(2 * ms)
				require.NoError(t, lease.Unlock(t.Context()))
			})
			time.Sleep(ms)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		wg.Wait()
		// The next one asked when many stood ahead of it, and looks for what it saw then.
		require.LessOrEqual(t, next-died, ttl+3*time.Second)
	})
}

func TestAProcessThatDiesWithManyWaitersAtTheHeadDelaysTheLineForSeconds(t *testing.T) {
	for _, dead := range []int{1, 5, 30, 100} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, c := net.client(), net.client()
			b, pools := net.cuttableClient()
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			leave, gone := queueUp(t, b, dead)
			_, served := queueUp(t, c, 3)
			time.Sleep(500 * ms)
			for _, p := range pools { // what b sends and hears is lost from now on
				p.hold(true)
			}
			require.NoError(t, lease.Unlock(t.Context()))
			took := elapsed(served.Wait)
			t.Logf("%d dead waiters: %v", dead, took)
			require.Less(t, took, 5*time.Second)
			for _, p := range pools {
				p.hold(false)
			}
			leave()
			gone.Wait()
		})
	}
}

// A process holds, has all the next places in line too, and dies after a while.
func TestAProcessThatDiesWhileItHoldsWithManyWaitersBehindDelaysTheLineForSeconds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, c := net.client(), net.client()
		b, pools := net.cuttableClient()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		go func() {
			if l, err := b.Mutex("x").Lock(t.Context()); err == nil {
				<-l.Done()
				_ = l.Unlock(t.Context())
			}
		}()
		time.Sleep(ms)
		leave, gone := queueUp(t, b, 100)
		_, served := queueUp(t, c, 1)
		time.Sleep(500 * ms)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(20 * time.Second)
		for _, p := range pools {
			p.hold(true)
		}
		took := elapsed(served.Wait)
		for _, p := range pools {
			p.hold(false)
		}
		leave()
		gone.Wait()
		require.Less(t, took, 20*time.Second, "the ttl and a few seconds")
	})
}

func TestEarsThatReopenRouseTheFirstOfTheClient(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a := net.client()
		b, pools := net.cuttableClient()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := queueUp(t, b, 100)
		time.Sleep(500 * ms)
		for _, p := range pools { // the ears alone
			p.breakLast()
		}
		took := elapsed(func() {
			require.NoError(t, lease.Unlock(t.Context()))
			served.Wait()
		})
		require.Less(t, took, 3*time.Second)
	})
}

func TestEarsThatOpenLateDoNotRouseAnybody(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		b := net.client()
		for i, n := range net.nodes {
			n.set(func(n *testNode) { n.log, n.delay = nil, time.Duration(i)*20*ms })
		}
		_, served := queueUp(t, b, 1)
		time.Sleep(700 * ms)
		for _, n := range net.nodes {
			require.LessOrEqual(t, n.executed("acquire"), 2, "one to see that it is held, one to queue")
		}
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
	})
}

// breakLast breaks the connection that was made last.
func (p *cuttable) breakLast() {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[len(p.links)-1]
	p.testNode.set(func(*testNode) {
		l.cut = true
		_ = l.near.Close()
	})
}

func TestAGrantThatComesTooLateLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := queueUp(t, c, 1) // its Locks queue from now on
		time.Sleep(500 * ms)
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 40 * ms })
		}
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
			_, err := c.Mutex("x", WithMaxHold(50*ms)).Lock(ctx)
			require.ErrorIs(t, err, ErrNoQuorum)
			cancel()
			time.Sleep(200 * ms)
			net.requireNoKeys()
			net.requireNoLines()
			require.Empty(t, c.line.waiters)
		}
	})
}

// lonely is a pool with room for one connection.
type lonely struct {
	*testNode
	mu   sync.Mutex // protects used
	used bool
}

type lonelyConn struct {
	redis.Conn
	pool *lonely
}

func (p *lonely) GetContext(ctx context.Context) (redis.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used {
		return nil, errors.New("connection pool exhausted")
	}
	conn, err := p.testNode.GetContext(ctx)
	p.used = err == nil
	return lonelyConn{conn, p}, err
}

func (c lonelyConn) Close() error {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.used = false
	return c.Conn.Close()
}

func (c lonelyConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c lonelyConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, cmd, args...)
}

func (c lonelyConn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func (c lonelyConn) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, cmd, args...)
}

func TestTheEarDoesNotTakeTheNodesOnlyConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		pools := make([]Pool, len(net.nodes))
		for i, n := range net.nodes {
			pools[i] = &lonely{testNode: n}
		}
		a := net.client()
		b, err := New(pools, WithLogger(nil), WithRestartGuard(0), withClock(net.clock.now))
		require.NoError(t, err)
		net.clients = append(net.clients, b)
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := queueUp(t, b, 1)
		time.Sleep(time.Second)
		for range 10 {
			for _, n := range net.nodes {
				n.down()
			}
			time.Sleep(time.Second)
			for _, n := range net.nodes {
				n.up()
			}
			time.Sleep(2 * time.Second)
			require.NoError(t, b.Ping(t.Context()))
		}
		require.NoError(t, lease.Unlock(t.Context()))
		require.Less(t, elapsed(served.Wait), 3*time.Second, "the timers serve")
	})
}

func TestNewcomersDoNotPassTheLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b, c := net.client(WithTTL(3*time.Second)), net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := queueUp(t, b, 1)
		time.Sleep(500 * ms)
		a.die(lease)
		for _, n := range net.nodes {
			n.redis.Del("redlock:x")
		}
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld, "it is kept for the first in line")
		require.ErrorContains(t, err, "kept for the first in line")
		served.Wait()
		last, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, last.Unlock(t.Context()))
	})
}

// An earlier ticket that comes late, since its client was away, takes a reservation
// over; a renewal that heals does too. Whom it was for is back in line.
func TestReservationsGiveNoRights(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		node := net.nodes[0].redis
		later := "1000000000000002-AAAA-0000000001"
		require.NoError(t, node.Set("redlock::alive:AAAA:redlock:x", "label"))
		require.NoError(t, node.Set("redlock:x", reservation+later))
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		have, err := node.Get("redlock:x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), have)
		line, err := node.ZMembers("redlock::line:redlock:x")
		require.NoError(t, err)
		require.Equal(t, []string{later}, line)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		have, err = node.Get("redlock:x")
		require.NoError(t, err)
		require.Equal(t, reservation+later, have)
		conn := dialTest(t, net.nodes[0])
		reply, err := redis.Int(conn.Do("EVALSHA", protocol.Acquire.SHA, 1, "redlock:x", "owner", 1000, "", 1, "1000000000000001-BBBB-0000000001", "label"))
		require.NoError(t, err)
		require.Equal(t, 1, reply)
		line, err = node.ZMembers("redlock::line:redlock:x")
		require.NoError(t, err)
		require.Equal(t, []string{later}, line)
		node.FlushAll()
		require.NoError(t, conn.Close())
	})
}
