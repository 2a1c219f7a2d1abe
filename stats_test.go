package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testnet"
)

func TestStatsCountCallsVotesAndLeases(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(redlock.WithTTL(3*time.Second)), net.Client()
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		second, err := c.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		_, err = other.Mutex("z").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // all nodes have its key
		_, err = c.Mutex("z").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
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
		for _, n := range net.Nodes {
			n.Down()
		}
		synctest.Wait()
		_, err = c.Mutex("q").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		<-second.Done()
		synctest.Wait()
		s = c.Stats()
		require.Equal(t, uint64(1), s.NoQuorum)
		require.Equal(t, uint64(1), s.Lost)
		require.Zero(t, s.Leases)
		require.NotZero(t, s.Unrenewed)
		require.Equal(t, 1, s.Nodes[0].Undos)
		require.NotZero(t, s.Nodes[0].NotSent)
	})
}

func TestStatsCountUnansweredCommands(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		synctest.Wait() // all nodes have answered the ping
		net.Nodes[0].Freeze()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 4, c.Stats().Nodes[0].Unanswered, "the commands of one attempt")
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 5, c.Stats().Nodes[0].Unanswered)
		require.Zero(t, c.Stats().Nodes[0].Unknown, "not yet")
		net.Nodes[0].Cut()
		synctest.Wait()
		require.Equal(t, uint64(2), c.Stats().Nodes[0].Unknown)
	})
}
