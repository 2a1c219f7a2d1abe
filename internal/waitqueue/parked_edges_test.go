package waitqueue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Leases of parked attempts, while something else is under way. In each of these cases the first
// version with parked attempts let two callers hold the lock, or left keys.

// releaseAll delivers what links hold back, so that clients can be closed.
func releaseAll(net *testnet.Net) {
	for _, n := range net.Nodes {
		n.Set(func(n *testnet.Node) {
			for _, l := range n.Links {
				l.Held = false
			}
		})
	}
}

// The second node is still to undo an attempt, when the other nodes execute it, since it is parked
// there, and it becomes a lease. Until the undo, the second node's answers to renewals do not count.
func TestRenewalDoesNotCountAtANodeThatIsStillToUndoTheAttempt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		defer releaseAll(net)
		second, third := net.Nodes[1], net.Nodes[2]
		second.Redis.Del("redlock:x")
		second.Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if n.Label(cmd, args) == "release" {
					return "BUSY Redis is busy running a script"
				}
				return ""
			}
		})
		got := make(chan *redlock.Lease, 1)
		go func() {
			l, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- l
		}()
		time.Sleep(60 * ms)
		require.Equal(t, 1, testhook.Engine(b).Cluster.Nodes[1].Undos())
		third.Set(func(n *testnet.Node) { n.Links[1].Held = true }) // b's; wake-ups come over another
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		time.Sleep(20 * ms)
		require.Less(t, lease.Remaining(), protocol.ReservationTTL, "a majority did not renew it")

		second.Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(time.Second)
		other, err := net.Client().Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, lease.Valid())
		require.True(t, other.Valid())
	})
}

// One node executes a parked attempt before ForceUnlock seizes it; another would execute the
// attempt after ForceUnlock gave the node back.
func TestForceUnlockOutlastsAttemptsThatWereParkedBefore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		opts := []redlock.ClientOption{redlock.WithoutFencing(), redlock.WithNodeTimeout(20 * ms)}
		a, b := net.Client(opts...), testnet.ListeningClient(t, net, opts...)
		c, d := net.Client(opts...), net.Client(opts...)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		defer releaseAll(net)
		for _, n := range net.Nodes[1:] {
			n.Set(func(n *testnet.Node) { n.Links[0].Delay = 300 * ms }) // a's
		}
		net.Nodes[2].Set(func(n *testnet.Node) { n.Links[1].Held = true }) // b's
		got := make(chan *redlock.Lease, 1)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		go func() {
			l, _ := b.Mutex("x").Lock(ctx)
			got <- l
		}()
		time.Sleep(30 * ms)
		for _, n := range net.Nodes[:2] {
			n.Set(func(n *testnet.Node) { n.Links[1].Delay = 40 * ms }) // its renewal is late
		}
		go func() { _ = held.Unlock(t.Context()) }() // reaches the first node only
		time.Sleep(5 * ms)
		_, err = c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		other, err := d.Mutex("x").TryLock(t.Context()) // may be refused: b is the first in the queue
		select {
		case l := <-got:
			require.False(t, err == nil && l != nil && l.Valid() && other.Valid(), "two holders")
		case <-time.After(20 * ms):
		}
		stop()
	})
}

// A Do ends later than the keys of the parked attempt that became its lease. A renewal is on its
// way when the client is closed, and prolongs the keys.
func TestCloseAwaitsADoWhoseKeysWereProlonged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(5 * ms)
		in, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				close(in)
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}()
		time.Sleep(60 * ms)
		go func() { _ = held.Unlock(t.Context()) }()
		<-in
		time.Sleep(ms)
		require.NoError(t, b.Close())
		<-done
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}
