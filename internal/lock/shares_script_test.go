package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Which shares stand at one node when a reader gets one there.
func TestAShareStandsAloneOrBesideThoseOfNow(t *testing.T) {
	const ticket = testnet.FirstTicket + "r"
	read := func(before string) []any {
		return []any{5, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "challenged", "me", 20_000, "", 1, ticket, "label", before, 0}
	}
	keep := []any{4, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x", "me", 20_000, 1, ""}
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
					require.NoError(t, n.Redis.Set("redlock::parked:"+ticket, "  1 me"))
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
