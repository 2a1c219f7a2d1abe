package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client of another Redlock library tries again and again, and joins no queue. Beside waiters of ours it hardly
// gets a turn, since they hand the lock over; beside callers of ours that try again too, it gets its share.
func TestForeignClientsStarveBesideWaitersAndNotBesideCallersWithABackoff(t *testing.T) {
	if !long.Tests() {
		t.Skip("make verify runs it")
	}
	turns := func(t *testing.T, net *testnet.Net, opts ...redlock.LockOption) (foreign, ours int) {
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
		defer stop()
		var conns []redis.Conn
		for _, n := range net.Nodes {
			conn := testnet.Dial(t, n)
			defer conn.Close()
			conns = append(conns, conn)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 5 {
			c := testnet.ListeningClient(t, net)
			all.Go(func() {
				for ctx.Err() == nil {
					lease, err := c.Mutex("x", opts...).Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(3 * ms)
					assert.NoError(t, lease.Unlock(t.Context()))
					mu.Lock()
					ours++
					mu.Unlock()
				}
			})
		}
		for ctx.Err() == nil {
			if tryForeign(conns, "redlock:x") {
				foreign++
				time.Sleep(3 * ms)
			}
			freeForeign(conns, "redlock:x")
			time.Sleep(20 * ms)
		}
		all.Wait()
		return foreign, ours
	}
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		foreign, ours := turns(t, net)
		t.Logf("beside waiters: %d turns, and %d of ours", foreign, ours)
		assert.Less(t, foreign, ours/50)
	})
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		foreign, ours := turns(t, net, redlock.WithBackoff(func(int) time.Duration { return 20 * ms }))
		t.Logf("beside callers with a back-off: %d turns, and %d of ours", foreign, ours)
		assert.Greater(t, foreign, ours/50)
	})
}

// tryForeign sends SET NX to each node, and reports whether a majority granted.
func tryForeign(conns []redis.Conn, key string) bool {
	got := 0
	for _, conn := range conns {
		if reply, _ := conn.Do("SET", key, "foreign", "NX", "PX", 8000); reply != nil {
			got++
		}
	}
	return got > len(conns)/2
}

// freeForeign deletes what tryForeign has set.
func freeForeign(conns []redis.Conn, key string) {
	for _, conn := range conns {
		if value, _ := redis.String(conn.Do("GET", key)); value == "foreign" {
			_, _ = conn.Do("DEL", key)
		}
	}
}
