package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestShareTakesOneTrip(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		beside, err := other.RWMutex("x").RLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes.Set(func(n *testnet.Node) { n.Delay, n.Log = 10*ms, nil })
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
		lease := net.Must(a.RWMutex("x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes.Freeze()
		until := lease.Until()
		err := lease.Downgrade(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `downgrade "x"`)
		require.True(t, lease.Shared())
		require.True(t, lease.Valid())
		require.Equal(t, until, lease.Until())
		net.Nodes.Thaw()
		time.Sleep(5 * time.Second)
		reader := net.Must(b.RWMutex("x").TryRLock(t.Context()))
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
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
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
			first := net.Must(c.RWMutex("x").RLock(t.Context()))
			for _, n := range net.Nodes[:round%5] {
				n.Redis.HIncrBy(n.Record(), protocol.StripeOf("redlock:x"), round%3) // by refused writers
			}
			second := net.Must(c.RWMutex("x").RLock(t.Context()))
			require.GreaterOrEqual(t, min(first.Token(), second.Token()), last, "not less than the writer's before")
			require.NoError(t, first.Unlock(t.Context()))
			require.NoError(t, second.Unlock(t.Context()))
			synctest.Wait()
			writer := net.Must(c.RWMutex("x").Lock(t.Context()))
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
		lease := net.Must(a.RWMutex("x").Lock(t.Context()))
		net.Delay(10 * ms)
		done := make(chan error, 1)
		go func() {
			_, err := b.ForceUnlock(t.Context(), "x")
			done <- err
		}()
		time.Sleep(15 * ms) // the question has been answered, and the command is not sent yet
		for _, n := range net.Nodes {
			n.Run(protocol.Keep, 5, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "members", lease.Owner(), 10_000, "", "")
		}
		require.NoError(t, <-done)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
	})
}

// A renewal may end a share earlier than before: after the server's clock was set back.
func TestKeyEndsWithTheLongestShareAlsoIfThatIsEarlier(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		keys := []any{5, "redlock:y", "record", "redlock::queue:redlock:y", "redlock::readers:redlock:y", "members"}
		eval(protocol.Read, 4, "redlock:y", "record", "redlock::queue:redlock:y", "redlock::readers:redlock:y",
			"owner", 3_600_000, "7", 1, "", "label", "", 0)
		eval(protocol.Keep, append(keys, "owner", 10_000, "", "")...)
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
		long := net.Must(c.RWMutex("x", redlock.WithTTL(30*time.Second)).RLock(t.Context()))
		short := net.Must(c.RWMutex("x", redlock.WithTTL(3*time.Second)).RLock(t.Context()))
		lasts(30*time.Second, "given")
		require.NoError(t, short.Extend(t.Context()))
		lasts(30*time.Second, "prolonged")
		require.NoError(t, long.Unlock(t.Context()))
		lasts(3*time.Second, "the longest is released")
		require.NoError(t, short.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// Which shares stand at one node when a reader gets one there.
func TestAShareStandsAloneOrBesideThoseOfNow(t *testing.T) {
	const ticket = testnet.FirstTicket + "r"
	read := func(before string) []any {
		return []any{5, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "challenged", "me", 20_000, "7", 1, ticket, "label", before, 0}
	}
	keep := []any{5, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "members", "me", 20_000, "", ""}
	for name, c := range map[string]struct {
		has    string   // the key's value
		set    []string // of readers
		script *protocol.Script
		args   []any
		want   []string
	}{
		"read": {protocol.Shared, []string{"them"}, protocol.Read, read(""), []string{"me", "them"}},
		"read, of the only reader's next attempt": {protocol.Shared, []string{"before"}, protocol.Read, read("before"), []string{"me"}},
		"read, of a reader's next attempt":        {protocol.Shared, []string{"before", "them"}, protocol.Read, read("before"), []string{"me", "them"}},
		"read, of a free lock":                    {"", []string{"earlier"}, protocol.Read, read(""), []string{"me"}},
		"keep":                                    {protocol.Shared, []string{"me", "them"}, protocol.Keep, keep, []string{"me", "them"}},
		"keep, of a free lock":                    {"", []string{"earlier"}, protocol.Keep, keep, []string{"me"}},
		"keep, of a writer that downgrades":       {"me", []string{"earlier"}, protocol.Keep, keep, []string{"me"}},
		"release, which lets a reader in":         {"holder", []string{"earlier"}, protocol.Release, testnet.Keys("redlock:x", "holder"), []string{"me"}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, eval := testnet.Scripted(t, net)
				if c.has != "" {
					require.NoError(t, n.Redis.Set("redlock:x", c.has))
					n.Redis.SetTTL("redlock:x", 10*time.Second)
				}
				for _, owner := range c.set {
					_, err := n.Redis.ZAdd("redlock::readers:redlock:x", float64(time.Now().Add(10*time.Second).UnixMilli()), owner)
					require.NoError(t, err)
				}
				if c.script == protocol.Release { // to a reader that has parked its attempt
					_, err := n.Redis.ZAdd("redlock::queue:redlock:x", 0, ticket)
					require.NoError(t, err)
					require.NoError(t, n.Redis.Set("redlock::alive:AAAAAAAAAAAAAAAA", "!label"))
					require.NoError(t, n.Redis.Set("redlock::parked:"+ticket, "record 7 1 me"))
					n.Redis.HSet("record", "7", "1")
				}
				eval(c.script, c.args...)
				shares, err := n.Redis.ZMembers("redlock::readers:redlock:x")
				require.NoError(t, err)
				require.ElementsMatch(t, c.want, shares)
				require.Equal(t, protocol.Shared, holderAt(n))
			})
		})
	}
}

// The last share that is not over is released: the lock is free, and goes to the writer that waits.
func TestReleaseOfTheLastShareFreesTheLock(t *testing.T) {
	for _, waits := range []bool{false, true} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			require.NoError(t, n.Redis.Set("redlock:x", protocol.Shared))
			n.Redis.SetTTL("redlock:x", 10*time.Second)
			for owner, left := range map[string]time.Duration{"over": -ms, "me": 10 * time.Second} {
				_, err := n.Redis.ZAdd("redlock::readers:redlock:x", float64(time.Now().Add(left).UnixMilli()), owner)
				require.NoError(t, err)
			}
			reply, holder := int64(1), ""
			if waits {
				parkWaiter(t, n)
				reply, holder = lock.HandedToAnother, "them"
			}
			require.Equal(t, reply, eval(protocol.Release, testnet.Keys("redlock:x", "me")...))
			require.Equal(t, holder, holderAt(n))
		})
	}
}

// A count below the least began at 0: the node may have forgotten a writer, so it gives no share and confirms no token.
func TestNodeWhoseCountIsTooLowGivesNoShare(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		for count, want := range map[string]int64{"": -1, "9": -1, "10": 10, "11": 11} {
			n.Redis.FlushAll()
			if count != "" {
				n.Redis.HSet("record", "7", count)
			}
			require.Equal(t, want, eval(protocol.Read, 5, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "challenged",
				"me", 20_000, "7", 10, "", "label", "", 0), count)
			require.Equal(t, want > 0, n.Redis.Exists("redlock:x"), count)
			require.NoError(t, n.Redis.Set("redlock:x", protocol.Shared)) // it gave one before it forgot the count
			_, err := n.Redis.ZAdd("redlock::readers:redlock:x", float64(time.Now().Add(10*time.Second).UnixMilli()), "me")
			require.NoError(t, err)
			raised := eval(protocol.Raise, 3, "redlock:x", "record", "redlock::readers:redlock:x", "me", "7", 20, 10, 1)
			require.Equal(t, want > 0, raised == int64(1), count)
		}
	})
}
