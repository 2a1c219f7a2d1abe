package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatsTellWhatTheClientDid(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c, other := net.client(WithTTL(3*time.Second)), net.client()
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		second, err := c.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		_, err = other.Mutex("z").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it stands at all nodes
		_, err = c.Mutex("z").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.Mutex("z").Lock(ctx)
		}()
		time.Sleep(time.Second)
		s := c.Stats()
		require.Equal(t, 2, s.Leases)
		require.Equal(t, 1, s.Waiting)
		cancel()
		<-ended
		require.NoError(t, first.Unlock(t.Context()))
		synctest.Wait()
		s = c.Stats()
		require.Equal(t, 1, s.Leases)
		require.Zero(t, s.Waiting)
		require.Equal(t, uint64(2), s.Acquired)
		require.Equal(t, uint64(1), s.Released)
		require.Equal(t, uint64(1), s.Waits)
		require.Equal(t, time.Second, s.WaitTime.Round(10*ms))
		require.GreaterOrEqual(t, s.Held, uint64(2), "TryLock's attempt, and Lock's")
		require.Equal(t, uint64(2), s.Renewed)
		for _, n := range s.Nodes {
			require.Equal(t, "up", n.State)
			require.Equal(t, uint64(1), n.Connects)
			require.NotZero(t, n.Granted)
			require.NotZero(t, n.Refused)
			require.Zero(t, n.Unknown+n.NotSent+n.Late)
		}
		for _, n := range net.nodes {
			n.down()
		}
		synctest.Wait()
		_, err = c.Mutex("q").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		<-second.Done()
		synctest.Wait()
		s = c.Stats()
		require.Equal(t, uint64(1), s.NoQuorum)
		require.Equal(t, uint64(1), s.Lost)
		require.Zero(t, s.Leases)
		require.NotZero(t, s.Unrenewed)
		require.Equal(t, 1, s.Nodes[0].Debts)
		require.NotZero(t, s.Nodes[0].NotSent)
	})
}

func TestStatsCountWhatIsUnanswered(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		synctest.Wait() // the ping is answered by all
		net.nodes[0].freeze()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 4, c.Stats().Nodes[0].Unanswered, "the commands of one attempt")
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 5, c.Stats().Nodes[0].Unanswered)
		require.Zero(t, c.Stats().Nodes[0].Unknown, "not yet")
		net.nodes[0].cut()
		synctest.Wait()
		require.Equal(t, uint64(2), c.Stats().Nodes[0].Unknown)
	})
}
