package waitqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Locks that are reserved for a waiter.

func TestNewcomersDoNotPassTheQueue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithTTL(3*time.Second)), net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, served := testnet.QueueUp(t, b, 1)
		time.Sleep(500 * ms)
		net.Die(a, lease)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:x")
		}
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "it is reserved for the first waiter")
		require.ErrorContains(t, err, "reserved for the first waiter")
		served.Wait()
		last, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, last.Unlock(t.Context()))
	})
}

// An earlier ticket that comes late, since its client was away, takes a reservation over; a
// renewal that mends a lease does too. The waiter that had the reservation is back in the queue.
func TestReservationGivesNoRights(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		server := net.Nodes[0].Redis
		later := "1000000000000002-AAAA-0000000001"
		require.NoError(t, server.Set("redlock::alive:AAAA", "?label"))
		require.NoError(t, server.Set("redlock:x", protocol.Reservation+later))
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		have, err := server.Get("redlock:x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), have)
		queue, err := server.ZMembers("redlock::queue:redlock:x")
		require.NoError(t, err)
		require.Equal(t, []string{later}, queue)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		have, err = server.Get("redlock:x")
		require.NoError(t, err)
		require.Equal(t, protocol.Reservation+later, have)
		conn := testnet.Dial(t, net.Nodes[0])
		reply, err := redis.Int(conn.Do("EVALSHA", protocol.Acquire.SHA(), 1, "redlock:x", "owner", 1000, "", 1, "1000000000000001-BBBB-0000000001", "label"))
		require.NoError(t, err)
		require.Equal(t, 1, reply)
		queue, err = server.ZMembers("redlock::queue:redlock:x")
		require.NoError(t, err)
		require.Equal(t, []string{later}, queue)
		server.FlushAll()
		require.NoError(t, conn.Close())
	})
}
