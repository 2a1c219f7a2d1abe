package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A node may answer a renewal after its verdict.

func TestRenewalThatIsGrantedAfterTheEndDoesNotReviveTheLease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(400*ms), redlock.WithRenewEvery(500*ms))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(100 * ms)
		for _, n := range net.Nodes {
			n.Mute()
		}
		// The nodes execute the renewal; their answers arrive after the end of the lease.
		<-lease.Done()
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Muting = false })
		}
		time.Sleep(100 * ms)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.False(t, lease.Valid())
		net.RequireNoKeys()
	})
}

// Two of three nodes have lost the lease. One of them answers the renewal in time, the other
// after the renewal was granted.
func TestLossThatALateAnswerShowsEndsTheLease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(50*ms), redlock.WithRenewEvery(400*ms))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes[1].Redis.Del("redlock:x")
		net.Nodes[2].Redis.Del("redlock:x")
		net.Nodes[2].Mute()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err(), "one answer has not arrived")
		net.Nodes[2].Set(func(n *testnet.Node) { n.Muting = false })
		synctest.Wait()
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		net.RequireNoKeys()
	})
}

// A node that was frozen executes a renewal when its key has ended; meanwhile the other nodes
// have the key.
func TestKeyThatEndsBeforeALateRenewalIsNoLoss(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(300*ms), redlock.WithNodeTimeout(20*ms), redlock.WithRenewEvery(100*ms))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes[1].Redis.Del("redlock:x")
		net.Nodes[2].Freeze()
		time.Sleep(350 * ms)
		net.Nodes[2].Redis.Del("redlock:x")
		net.Nodes[2].Thaw()
		time.Sleep(500 * ms)
		require.NoError(t, lease.Err())
		require.Equal(t, 3, net.Holders(lease))
	})
}

// A renewal that failed has put the key back at two of three nodes that had lost it. There it proves nothing, also in
// the next renewal: another owner may have had these three meanwhile.
func TestNodesThatAFailedRenewalRestoredDoNotHideALoss(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(50*ms))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[:3] {
			n.Drop(lease)
		}
		for _, n := range net.Nodes[2:] {
			n.Down()
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, lease.Err(), "two answers show no loss")
		require.Equal(t, 4, net.Holders(lease), "two have it anew")
		net.Nodes[2].Up()
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
	})
}
