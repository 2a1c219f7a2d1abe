package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestShareTakesOneTrip(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		beside, err := other.RWMutex("x").RLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay, n.Log = 10*ms, nil })
		}
		var lease *redlock.Lease
		require.Equal(t, 20*ms, testnet.Elapsed(func() {
			lease, err = c.RWMutex("x").RLock(t.Context())
			require.NoError(t, err)
		}))
		require.Equal(t, 20*ms, testnet.Elapsed(func() { require.NoError(t, lease.Unlock(t.Context())) }))
		for _, n := range net.Nodes {
			require.Equal(t, 1, n.Executed("read"))
			require.Equal(t, 1, n.Executed("release"))
			n.Set(func(n *testnet.Node) { n.Delay = 0 })
		}
		require.NoError(t, beside.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// The nodes do not answer: the lease stays valid until its old end, and is a share from the call
// on. Its renewals make it one at the nodes, too.
func TestInconclusiveDowngradeLeavesAShare(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes {
			n.Freeze()
		}
		until := lease.Until()
		err = lease.Downgrade(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `downgrade "x"`)
		require.True(t, lease.Shared())
		require.True(t, lease.Valid())
		require.Equal(t, until, lease.Until())
		for _, n := range net.Nodes {
			n.Thaw()
		}
		time.Sleep(5 * time.Second)
		reader, err := b.RWMutex("x").TryRLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Downgrade(t.Context()), "of a share it is an Extend")
		require.NoError(t, reader.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, lease.Downgrade(t.Context()), redlock.ErrReleased)
		net.RequireNoKeys()
	})
}

func TestDowngradeOfALostLeaseFails(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.Nodes[:2] {
			n.Redis.Del("redlock:x")
		}
		require.ErrorIs(t, lease.Downgrade(t.Context()), redlock.ErrLost)
		require.False(t, lease.Valid())
		net.RequireNoKeys()
	})
}

// A writer after readers, whose counts differ at the nodes, since refused writers count too.
func TestWritersTokenIsGreaterThanThatOfEveryReaderBefore(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		last := int64(0)
		for round := range 20 {
			first, err := c.RWMutex("x").RLock(t.Context())
			require.NoError(t, err)
			for _, n := range net.Nodes[:round%5] {
				n.Redis.HIncrBy(n.Record(), protocol.StripeOf("redlock:x"), round%3) // by refused writers
			}
			second, err := c.RWMutex("x").RLock(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, min(first.Token(), second.Token()), last, "not less than the writer's before")
			require.NoError(t, first.Unlock(t.Context()))
			require.NoError(t, second.Unlock(t.Context()))
			synctest.Wait()
			writer, err := c.RWMutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, writer.Token(), max(first.Token(), second.Token()))
			last = writer.Token()
			require.NoError(t, writer.Unlock(t.Context()))
			synctest.Wait()
		}
	})
}

// The holder makes its lease a share between ForceUnlock's question and its command.
func TestForceUnlockAsksAgainWhereReadersCameMeanwhile(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(10 * ms)
		done := make(chan error, 1)
		go func() {
			_, err := b.ForceUnlock(t.Context(), "x")
			done <- err
		}()
		time.Sleep(15 * ms) // the question has been answered, and the command is not sent yet
		for _, n := range net.Nodes {
			n.Run(protocol.Keep, 4, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", lease.Owner(), 10_000, "1", "")
		}
		require.NoError(t, <-done)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
	})
}

// A renewal may end a share earlier than before: after the server's clock was set back.
func TestKeyEndsWithTheLongestShareAlsoIfThatIsEarlier(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		keys := []any{4, "redlock:y", "record", "redlock::queue:redlock:y", "redlock::readers:redlock:y"}
		eval(protocol.Read, 4, "redlock:y", "record", "redlock::queue:redlock:y", "redlock::readers:redlock:y",
			"owner", 3_600_000, "", 1, "", "label", "", 0)
		eval(protocol.Keep, append(keys, "owner", 10_000, "1", "")...)
		require.Equal(t, 10*time.Second, n.Redis.TTL("redlock:y"))
	})
}

// The lock's key, by which others see that readers hold the lock, lasts as long as the longest share,
// whichever was given or prolonged last.
func TestLocksKeyLastsAsLongAsTheLongestShare(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lasts := func(want time.Duration, when string) {
			t.Helper()
			synctest.Wait()
			for _, n := range net.Nodes {
				require.InDelta(t, want.Seconds(), n.Redis.TTL("redlock:x").Seconds(), 0.5, when)
			}
		}
		long, err := c.RWMutex("x", redlock.WithTTL(30*time.Second)).RLock(t.Context())
		require.NoError(t, err)
		short, err := c.RWMutex("x", redlock.WithTTL(3*time.Second)).RLock(t.Context())
		require.NoError(t, err)
		lasts(30*time.Second, "given")
		require.NoError(t, short.Extend(t.Context()))
		lasts(30*time.Second, "prolonged")
		require.NoError(t, long.Unlock(t.Context()))
		lasts(3*time.Second, "the longest is released")
		require.NoError(t, short.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}
