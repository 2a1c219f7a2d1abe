package waitqueue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The subscriptions over which nodes wake a client.

func TestReopenedSubscriptionsMakeTheForemostWaiterLook(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a := net.Client()
		b, pools := net.CuttableClient()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := testnet.QueueUp(t, b, 100)
		time.Sleep(500 * ms)
		for _, p := range pools { // the subscriptions alone
			p.BreakLast()
		}
		took := testnet.Elapsed(func() {
			require.NoError(t, lease.Unlock(t.Context()))
			served.Wait()
		})
		require.Less(t, took, 3*time.Second)
	})
}

// A subscription that stands later than a quorum of them makes the client's foremost waiter look: else the node would not know
// that the client is dead when its process is killed.
func TestNodeLearnsOfASubscriptionThatOpensLate(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		b := net.Client()
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Log, n.Delay = nil, time.Duration(i)*20*ms })
		}
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(700 * ms)
		for _, n := range net.Nodes {
			require.LessOrEqual(t, n.Executed("acquire"), 4, "one to see that it is held, one to queue, and one for each late subscription")
			for _, key := range n.Redis.Keys() {
				if strings.HasPrefix(key, "redlock::alive:") {
					label, err := n.Redis.Get(key)
					require.NoError(t, err)
					require.Equal(t, "!", label[:1], n)
				}
			}
		}
		require.NoError(t, lease.Unlock(t.Context()))
		served.Wait()
	})
}

// lonely is a pool with room for one connection.
type lonely struct {
	*testnet.Node
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
	conn, err := p.Node.GetContext(ctx)
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

func TestSubscriptionDoesNotTakeTheNodesOnlyConnection(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		pools := make([]redlock.Pool, len(net.Nodes))
		for i, n := range net.Nodes {
			pools[i] = &lonely{Node: n}
		}
		a := net.Client()
		b, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		net.Add(b)
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(time.Second)
		for range 10 {
			for _, n := range net.Nodes {
				n.Down()
			}
			time.Sleep(time.Second)
			for _, n := range net.Nodes {
				n.Up()
			}
			time.Sleep(2 * time.Second)
			require.NoError(t, b.Ping(t.Context()))
		}
		require.NoError(t, lease.Unlock(t.Context()))
		require.Less(t, testnet.Elapsed(served.Wait), 3*time.Second, "the waiter polls")
	})
}
