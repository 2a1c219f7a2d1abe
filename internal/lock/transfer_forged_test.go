package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What others may see of a lock makes no text, and a transfer that fails is taken back.

// forge returns a text for the lock of that name, made of an old text and what a HeldError shows.
func forge(t *testing.T, text, name, secret string) string {
	forged, err := protocol.ParseTransferText(text)
	require.NoError(t, err)
	forged.Name, forged.Secret = name, secret
	return forged.String()
}

// holderSeen returns the holder that a refused caller sees.
func holderSeen(t *testing.T, c *redlock.Client, name string) *redlock.HeldError {
	_, err := c.Mutex(name).TryLock(t.Context())
	var held *redlock.HeldError
	require.ErrorAs(t, err, &held)
	return held
}

// Between Transfer and Resume callers are refused as before, and see the label. The holder that they
// see resumes nothing, and the text stays good.
func TestHolderSeenBeforeAResumeMakesNoText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithOwnerLabel("builder\xff")), net.Client()
		lease, text := transfer(t, a)
		held := holderSeen(t, b, "x")
		require.Equal(t, "builder\xff", held.Label)
		require.NotEqual(t, lease.Owner(), held.Holder)
		for _, secret := range []string{held.Holder, held.Holder[:26], lease.Owner()} {
			_, err := b.Resume(t.Context(), forge(t, text, "x", secret))
			require.ErrorIs(t, err, redlock.ErrLost)
		}
		resumed := net.Must(b.Resume(t.Context(), text))
		_, err := b.Resume(t.Context(), forge(t, text, "x", resumed.Owner()))
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, 3, net.Holders(resumed))
	})
}

// A transfer that ends half-way, between the nodes' answers and their arrival, leaves the lease as
// it was.
func TestTransferThatFailsIsTakenBack(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
			lease := net.Must(net.Client(redlock.WithTTL(2 * time.Second)).Mutex("x").Lock(t.Context()))
			passed := transferHalfway(t, net, lease)
			require.Equal(t, n, nodesWith(net, passed))
			time.Sleep(50 * ms)
			require.Equal(t, n, net.Holders(lease), "the keys are the owner's again")
			time.Sleep(time.Minute)
			require.NoError(t, lease.Err(), "its renewals find them")
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(time.Second)
			net.RequireNoKeys()
		})
	}
}

// transferHalfway has all nodes execute a transfer whose caller gives up. It returns what the keys
// hold then.
func transferHalfway(t *testing.T, net *testnet.Net, lease *redlock.Lease) (passed string) {
	synctest.Wait()
	net.Delay(10 * ms)
	ctx, cancel := context.WithTimeout(t.Context(), 15*ms)
	defer cancel()
	seen := make(chan string, 1)
	time.AfterFunc(12*ms, func() {
		value, _ := net.Nodes[0].Redis.Get("redlock:x")
		seen <- value
	})
	_, err := lease.Transfer(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	passed = <-seen
	require.NotEqual(t, lease.Owner(), passed)
	return passed
}

// The connections break before the answers arrive. What gives the keys back goes to the next ones,
// ahead of renewals.
func TestTransferOverABrokenConnectionIsTakenBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithTTL(2 * time.Second)).Mutex("x").Lock(t.Context()))
		synctest.Wait()
		net.Delay(10 * ms)
		time.AfterFunc(15*ms, func() {
			net.Nodes.Cut()
		})
		_, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		require.Equal(t, 3, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// A node may execute a transfer when it was taken back, over a connection that it did not close.
// The next renewal takes it back, and does not count the lease as lost there.
func TestLateTransferIsTakenBackByTheNextRenewal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client(redlock.WithTTL(2 * time.Second)).Mutex("x").Lock(t.Context()))
		passed := transferHalfway(t, net, lease)
		net.Delay(0)
		time.Sleep(50 * ms)
		for _, n := range net.Nodes[:2] {
			require.NoError(t, n.Redis.Set("redlock:x", passed))
			n.Redis.SetTTL("redlock:x", 2*time.Second)
		}
		err := lease.Extend(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "a quorum has not prolonged its keys")
		require.Equal(t, 3, net.Holders(lease))
		require.NoError(t, lease.Extend(t.Context()))
	})
}

// Unlock meets a transfer whose answers are on their way, or have come: it confirms, and the lock
// is free.
func TestUnlockDuringATransfer(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * ms, 15 * ms} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(), net.Client()
			lease := net.Must(a.Mutex("x").Lock(t.Context()))
			require.NoError(t, b.Ping(t.Context()))
			net.Delay(10 * ms)
			failed := make(chan error, 1)
			go func() {
				text, err := lease.Transfer(t.Context())
				assert.Empty(t, text)
				failed <- err
			}()
			time.Sleep(after)
			synctest.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			require.ErrorIs(t, <-failed, redlock.ErrReleased)
			synctest.Wait()
			net.RequireNoKeys()
			next := net.Must(b.Mutex("x").TryLock(t.Context()))
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// Of two transfers at once one fails. It must not take back what the other one makes a text of.
func TestTransferThatFailsBesideAnotherLeavesTheText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.NoError(t, b.Ping(t.Context()))
		net.Delay(10 * ms)
		ctx, cancel := context.WithTimeout(t.Context(), 12*ms)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := lease.Transfer(ctx)
			failed <- err
		}()
		time.Sleep(5 * ms)
		text := net.Text(lease.Transfer(t.Context()))
		require.ErrorIs(t, <-failed, context.DeadlineExceeded)
		time.Sleep(100 * ms)
		require.Equal(t, 3, keeping(t, net, text))
		resumed := net.Must(b.Resume(t.Context(), text))
		require.NoError(t, resumed.Unlock(t.Context()))
	})
}

// A second transfer, right behind one that failed, is executed behind what takes that back.
func TestTransferRightBehindOneThatFailed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.NoError(t, b.Ping(t.Context()))
		transferHalfway(t, net, lease)
		text := net.Text(lease.Transfer(t.Context()))
		require.Equal(t, 3, keeping(t, net, text))
		resumed := net.Must(b.Resume(t.Context(), text))
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// The masters have executed a transfer and are cut off before it is taken back; the lease is
// released meanwhile. What gives the keys back must not come behind that release, whichever undo is
// sent first.
func TestReleaseTakesThePlaceOfATakeBack(t *testing.T) {
	for range 8 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
			synctest.Wait()
			net.Delay(10 * ms)
			time.AfterFunc(15*ms, func() {
				net.Nodes.Down()
			})
			_, err := lease.Transfer(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.Zero(t, net.Holders(lease), "the nodes have executed it")
			require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrNoQuorum)
			net.Nodes.Up()
			time.Sleep(3 * time.Second)
			net.RequireNoKeys()
		})
	}
}
