package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A caller that joins the lease while the nodes are asked goes on holding it: there is no text, with which
// another process could hold the lock beside it.
func TestCallerThatJoinsDuringATransferKeepsTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client(redlock.WithTTL(2*time.Second)).Mutex("x", redlock.WithReentry())
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		net.Delay(10 * ms)
		result := make(chan error, 1)
		go func() {
			_, err := outer.Transfer(t.Context())
			result <- err
		}()
		time.Sleep(5 * ms)
		inner, err := m.Lock(ctx)
		require.NoError(t, err)
		err = <-result
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "others hold the lease with it")
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, inner.Err(), "it is renewed as before")
		require.NoError(t, inner.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// A renewal behind the transfer could put the old key back when the new owner has released its own.
func TestLeaseIsNotExtendedDuringATransfer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		before := net.Nodes[0].Executed("renew")
		net.Delay(10 * ms)
		result := make(chan error, 1)
		go func() {
			_, err := lease.Transfer(t.Context())
			result <- err
		}()
		time.Sleep(5 * ms)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrTransferred)
		require.ErrorIs(t, lease.ExtendTo(t.Context(), 5*time.Second), redlock.ErrTransferred)
		require.NoError(t, <-result)
		time.Sleep(time.Second)
		require.Equal(t, before, net.Nodes[0].Executed("renew"))
	})
}

// Close ends the lease while the transfer still waits for a node that is silent. Then the lease is released when the Do
// returns, so a text would be one for a lock that is free.
func TestCloseDuringATransferWithinADoLeavesNoText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.NoError(t, c.Ping(t.Context()))
		ended := make(chan error, 1)
		go func() {
			ended <- c.Mutex("x").Do(t.Context(), func(ctx context.Context, l *redlock.Lease) error {
				net.Delay(10 * ms)
				net.Nodes[2].Freeze()
				text, err := l.Transfer(ctx)
				assert.ErrorIs(t, err, redlock.ErrClosed)
				assert.Empty(t, text)
				time.Sleep(100 * ms)
				synctest.Wait()
				for _, n := range net.Nodes {
					assert.Contains(t, n.Keys(), "redlock:x", "the Do has not returned")
				}
				return nil
			})
		}()
		time.Sleep(30 * ms) // a quorum answers after 20 ms, and the transfer waits 30 ms more for the last node
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		net.Nodes[2].Thaw()
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// refuse makes a node refuse all scripts, until the returned function is called.
func refuse(n *testnet.Node) (over func()) {
	n.Set(func(n *testnet.Node) {
		n.Override = func(cmd string, _ []string) string {
			if cmd == "EVALSHA" || cmd == "EVAL" {
				return "BUSY Redis is busy running a script"
			}
			return ""
		}
	})
	return func() { n.Set(func(n *testnet.Node) { n.Override = nil }) }
}

// A node that refuses the release for longer than the lock's ttl keeps the key of an ExtendTo, and is asked again.
func TestLongKeyIsDroppedAtANodeThatIsNotInTheText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, lease.ExtendTo(t.Context(), time.Hour))
		synctest.Wait()
		over := refuse(net.Nodes[0])
		text, err := lease.Transfer(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		over()
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, keeping(t, net, text))
		require.Zero(t, net.Holders(lease))
	})
}

// The same where the old lease's ttl is longer than that of the client that resumes it.
func TestOldKeyIsDroppedAtANodeThatRefusesForLong(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, text := transfer(t, net.Client(redlock.WithTTL(time.Hour)))
		b := net.Client(redlock.WithTTL(2 * time.Second))
		require.NoError(t, b.Ping(t.Context()))
		synctest.Wait()
		over := refuse(net.Nodes[0])
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(time.Minute)
		over()
		time.Sleep(5 * time.Second)
		net.RequireNoKeys()
	})
}
