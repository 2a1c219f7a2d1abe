package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A caller that holds the lock exclusively takes a share under it, and then unlocks the exclusive lease: the idiom
// by which other libraries downgrade.
func TestShareTakenUnderAnExclusiveLeaseIsSharedWhenThatIsUnlocked(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		lock := c.RWMutex("x", redlock.WithReentry())
		outer := net.Must(lock.Lock(t.Context()))
		under, cancel := outer.Context(t.Context())
		defer cancel()
		second := net.Must(lock.Lock(under))
		share := net.Must(lock.RLock(under))
		require.False(t, share.Shared(), "the exclusive leases are held")
		asReader, stop := share.Context(t.Context())
		defer stop()
		_, holds := c.Mutex("x").Held(asReader)
		require.False(t, holds, "the share stays when the exclusive leases end")
		entered := net.Begin(other.RWMutex("x").RLock)
		time.Sleep(time.Second)
		require.NoError(t, outer.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		require.False(t, share.Shared(), "one of them still is")
		require.Empty(t, entered)

		began := time.Now()
		require.NoError(t, second.Unlock(t.Context()))
		require.True(t, share.Shared())
		reader := <-entered
		require.Less(t, time.Since(began), 100*ms)
		beside, cancel := share.Context(t.Context())
		defer cancel()
		_, err := lock.TryLock(beside)
		require.ErrorIs(t, err, redlock.ErrHeld, "there is no upgrade")
		net.Held(other.RWMutex("x").TryLock(t.Context()))
		time.Sleep(15 * time.Second)
		require.True(t, share.Valid())
		require.NoError(t, reader.Unlock(t.Context()))
		require.NoError(t, share.Unlock(t.Context()))
		synctest.Wait()
		writer := net.Must(other.RWMutex("x").TryLock(t.Context()))
		require.NoError(t, writer.Unlock(t.Context()))
	})
}

// shareOfReentry makes c hold x exclusively, and a share under that, and has a reader of another client wait.
func shareOfReentry(t *testing.T, net *testnet.Net, opts ...redlock.LockOption) (outer, share *redlock.Lease, entered <-chan *redlock.Lease) {
	t.Helper()
	c, other := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
	lock := c.RWMutex("x", append(opts, redlock.WithReentry())...)
	outer = net.Must(lock.Lock(t.Context()))
	synctest.Wait() // all nodes have executed it, not only a majority: the other reader comes later
	under, cancel := outer.Context(t.Context())
	t.Cleanup(cancel)
	share = net.Must(lock.RLock(under))
	got := net.Begin(other.RWMutex("x").RLock)
	time.Sleep(time.Second)
	return outer, share, got
}

// A renewal that is under way when the exclusive lease is unlocked still renews that: the next one, which makes the
// lease a share at the nodes, follows at once. Where the validity cannot be prolonged beyond WithMaxHold, there would be no next one.
func TestNodesLearnOfTheShareAfterARenewalThatWasUnderWay(t *testing.T) {
	for name, opts := range map[string][]redlock.LockOption{"renewed": nil, "last renewal": {redlock.WithMaxHold(10500 * ms)}} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				outer, share, entered := shareOfReentry(t, net, opts...)
				net.Delay(10 * ms)
				for underWay := false; !underWay; time.Sleep(ms) {
					_, underWay = testhook.Lease(outer).Schedule()
				}
				began := time.Now()
				require.NoError(t, outer.Unlock(t.Context()))
				reader := <-entered
				require.Less(t, time.Since(began), 300*ms)
				require.True(t, share.Shared())
				require.NoError(t, reader.Unlock(t.Context()))
				require.NoError(t, share.Unlock(t.Context()))
				net.RequireNoKeys()
			})
		})
	}
}

// A lease that is not renewed ends when it was to end, though the nodes are told that it is a share.
func TestUnlockOfTheExclusiveLeaseProlongsNothingWithoutRenewal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		outer, share, entered := shareOfReentry(t, net, redlock.WithoutRenewal())
		until := time.Now().Add(share.Remaining())
		var end [3]time.Time // of the keys
		for i, n := range net.Nodes {
			end[i] = time.Now().Add(n.Redis.TTL("redlock:x"))
			n.Freeze()
		}
		began := time.Now()
		require.NoError(t, outer.Unlock(t.Context()))
		time.Sleep(1200 * ms)
		net.Nodes.Thaw()
		require.NoError(t, (<-entered).Unlock(t.Context()))
		require.Less(t, time.Since(began), 3*time.Second, "the nodes are told until they answer")
		synctest.Wait()
		require.True(t, share.Shared())
		require.Equal(t, until, time.Now().Add(share.Remaining()))
		for i, n := range net.Nodes {
			require.WithinDuration(t, end[i], time.Now().Add(n.Redis.TTL("redlock:x")), 5*ms, "node %d", i)
		}
		<-share.Done()
		require.Equal(t, until, time.Now())
		require.ErrorIs(t, share.Err(), redlock.ErrLost)
	})
}
