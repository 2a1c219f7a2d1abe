package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// transfer locks x, transfers the lease, and returns it with the text.
func transfer(t *testing.T, c *redlock.Client) (*redlock.Lease, string) {
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait()
	text, err := lease.Transfer(t.Context())
	require.NoError(t, err)
	return lease, text
}

// transferValue returns what the keys of a lease that was transferred hold.
func transferValue(t *testing.T, text string) string {
	l, err := protocol.ParseTransferText(text)
	require.NoError(t, err)
	return protocol.TransferValue(l.Secret, l.Label)
}

// nodesWith returns how many nodes have x locked with this value.
func nodesWith(net *testnet.Net, value string) (nodes int) {
	synctest.Wait()
	for _, n := range net.Nodes {
		if got, err := n.Redis.Get("redlock:x"); err == nil && got == value {
			nodes++
		}
	}
	return nodes
}

// keeping returns how many nodes keep the lease of a text.
func keeping(t *testing.T, net *testnet.Net, text string) int {
	return nodesWith(net, transferValue(t, text))
}

func TestLeaseGoesOnInAnotherClient(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b, other := net.Client(), net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		text, err := lease.Transfer(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrTransferred)
		require.ErrorIs(t, lease.Err(), redlock.ErrTransferred)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrTransferred)
		_, err = lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrTransferred)
		<-lease.Done()
		require.False(t, lease.Valid())
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, a.Close())
		require.Equal(t, 5, keeping(t, net, text), "neither Unlock nor Close releases it")

		time.Sleep(8 * time.Second) // of a ttl of 10 s
		_, err = other.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 5, net.Holders(resumed))
		require.NotEqual(t, lease.Owner(), resumed.Owner())
		require.Greater(t, resumed.Token(), lease.Token())
		require.Greater(t, resumed.Remaining(), 9*time.Second)
		require.Equal(t, "x", resumed.Name())
		time.Sleep(time.Minute)
		require.NoError(t, resumed.Err(), "it renews itself")
		_, err = other.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NoError(t, resumed.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestTransferTakesOneTripAndSoDoesResume(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Ping(t.Context()))
		net.Delay(10 * ms)
		var text string
		require.Equal(t, 20*ms, testnet.Elapsed(func() { text, err = lease.Transfer(t.Context()) }))
		require.NoError(t, err)
		var resumed *redlock.Lease
		require.Equal(t, 20*ms, testnet.Elapsed(func() { resumed, err = b.Resume(t.Context(), text) }))
		require.NoError(t, err)
		require.Equal(t, 1, net.Nodes[0].Executed("resume"))
		require.Equal(t, lease.Token()+1, resumed.Token())
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// The keys last a little longer than the validity. As long as a quorum keeps them, nobody else can have had the lock.
func TestLeaseIsResumedWhileItsKeysStand(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, text := transfer(t, net.Client())
		time.Sleep(10*time.Second - ms)
		require.Equal(t, 3, keeping(t, net, text))
		lease, err := net.Client().Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestLateResumeFailsAndLeavesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client(redlock.WithOwnerLabel("late"))
		_, text := transfer(t, a)
		time.Sleep(10 * time.Second)
		var err error
		require.Zero(t, testnet.Elapsed(func() { _, err = b.Resume(t.Context(), text) }), "it does not try again in vain")
		require.ErrorIs(t, err, redlock.ErrLost)
		require.ErrorContains(t, err, `redlock: the lease of "x" is lost: it was transferred, and could not be resumed: too late, or another caller has the lock: resume "x": no quorum: 0 of 3 nodes granted, 2 needed; node `)
		require.ErrorContains(t, err, "refused: the lease's key is gone there: it has ended, or was taken away")
		var lost *redlock.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, redlock.LostTransferred, lost.Reason)
		require.Equal(t, transferValue(t, text), lost.Owner, "the lease was that of the text, and no owner's")
		require.Len(t, lost.Votes, 3)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestOneTextIsOneLease(t *testing.T) {
	for range 10 {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			a := net.Client()
			var clients []*redlock.Client
			for range 3 {
				clients = append(clients, net.Client())
			}
			_, text := transfer(t, a)
			var mu sync.Mutex
			var got []*redlock.Lease
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					lease, err := c.Resume(t.Context(), text)
					if err != nil {
						assert.ErrorIs(t, err, redlock.ErrLost)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, lease)
				})
			}
			all.Wait()
			synctest.Wait()
			require.LessOrEqual(t, len(got), 1)
			if len(got) == 1 {
				require.GreaterOrEqual(t, net.Holders(got[0]), 3, "the others released nothing of it")
				_, err := a.Resume(t.Context(), text)
				require.ErrorIs(t, err, redlock.ErrLost)
				require.NoError(t, got[0].Err())
				require.NoError(t, got[0].Unlock(t.Context()))
			}
			synctest.Wait()
			net.RequireNoKeys()
		})
	}
}

// Without a quorum that answers, the lease goes on, and so do its renewals.
func TestTransferWithoutAQuorumLeavesTheLeaseAsItWas(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[1:] {
			n.Freeze()
		}
		_, err = lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `transfer "x": no quorum`)
		require.NoError(t, lease.Err())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = lease.Transfer(ctx)
		require.ErrorIs(t, err, context.Canceled)
		for _, n := range net.Nodes[1:] {
			n.Thaw()
		}
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		_, err = lease.Transfer(t.Context())
		require.NoError(t, err)
	})
}

// One node is away when the lease is transferred, and another one when it is resumed.
func TestTransferOutlivesAMinorityThatFails(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes[0].Freeze()
		text, err := lease.Transfer(t.Context())
		require.NoError(t, err)
		net.Nodes[0].Thaw()
		synctest.Wait()
		require.Equal(t, 4, keeping(t, net, text), "a node that is not in the text drops the key")
		net.Nodes[1].Restart(net.Nodes[1].Snapshot())
		net.Nodes[2].Freeze()
		time.AfterFunc(time.Second, net.Nodes[2].Thaw)
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, resumed.Err())
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		net.RequireNoKeys()
	})
}

func TestResumeEndsWithItsContext(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		_, text := transfer(t, net.Client())
		for _, n := range net.Nodes[1:] {
			n.Down()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, net.Nodes[0].Down) // it has transferred the key by then
		_, err := b.Resume(ctx, text)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `redlock: resume "x": `)
		for _, n := range net.Nodes {
			n.Up()
		}
		time.Sleep(3 * time.Second)
		net.RequireNoKeys()
	})
}

func TestResumeGivesUpWhenTheOldLeaseHasEnded(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		_, text := transfer(t, net.Client())
		for _, n := range net.Nodes {
			n.Down()
		}
		took := testnet.Elapsed(func() {
			_, err := b.Resume(t.Context(), text)
			require.ErrorIs(t, err, redlock.ErrLost)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum, "the lease is lost for good")
		})
		require.InDelta(t, 9898*ms, took, float64(100*ms))
	})
}

func TestTransferIsARenewalAndSeesALoss(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		lease, err := net.Client(redlock.WithoutRenewal()).Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(8 * time.Second)
		text, err := lease.Transfer(t.Context())
		require.NoError(t, err)
		time.Sleep(8 * time.Second)
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[1:] {
			require.NoError(t, n.Redis.Set("redlock:x", "them"))
			n.Redis.SetTTL("redlock:x", 5*time.Second)
		}
		_, err = resumed.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, 5*time.Second, net.Nodes[1].Redis.TTL("redlock:x"), "it does not prolong another owner's key")
	})
}
