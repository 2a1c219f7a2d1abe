package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What the scripts of sets do at one node.

// standing is what a node has of the locks a, b and c: of each the value of its key, and "" for none.
type standing [3]string

var abc = []string{"a", "b", "c"}

// put makes a node have these values, each for ten seconds.
func (s standing) put(t *testing.T, n *testnet.Node) {
	for _, client := range []string{"AAAAAAAAAAAAAAAA", "CCCCCCCCCCCCCCCC"} {
		require.NoError(t, n.Redis.Set(protocol.Key("alive", client), "!label"))
	}
	for i, value := range s {
		if value != "" {
			require.NoError(t, n.Redis.Set(abc[i], value))
			n.Redis.SetTTL(abc[i], 10*time.Second)
		}
	}
}

// standingAt returns what a node has, and for how long; 0 without a key.
func standingAt(n *testnet.Node) (s standing, ttls [3]time.Duration) {
	for i, key := range abc {
		s[i], _ = n.Redis.Get(key)
		ttls[i] = n.Redis.TTL(key)
	}
	return s, ttls
}

// A renewal touches no key of another owner, and changes nothing where it does not prolong all keys.
func TestRenewalOfASetProlongsAllKeysOrChangesNothing(t *testing.T) {
	const kept, whole, off = protocol.Reservation + testnet.SecondTicket, "9", "1"
	for name, c := range map[string]struct {
		has    standing
		record bool
		least  string // off where admission is off
		answer any    // the holder, of an answer that names one
	}{
		"all stand":                         {standing{"me", "me", "me"}, true, whole, int64(1)},
		"all stand, no record":              {standing{"me", "me", "me"}, false, whole, int64(1)},
		"the last is missing":               {standing{"me", "me", ""}, true, whole, int64(2)},
		"the first is missing":              {standing{"", "me", "me"}, true, whole, int64(2)},
		"one is reserved":                   {standing{"me", kept, "me"}, true, whole, int64(2)},
		"all are missing":                   {standing{}, true, whole, int64(2)},
		"the last is another's":             {standing{"me", "me", "them"}, true, whole, "them"},
		"the first is another's":            {standing{"them", "me", "me"}, true, whole, "them"},
		"one is missing, one is another's":  {standing{"me", "", "them"}, true, whole, "them"},
		"one is reserved, one is another's": {standing{"me", kept, "them"}, true, whole, "them"},
		"readers hold one":                  {standing{"me", protocol.Shared, ""}, true, whole, protocol.Shared},
		"one is missing, no record":         {standing{"me", "", "me"}, false, whole, int64(0)},
		"one is reserved, no record":        {standing{"me", kept, "me"}, false, whole, int64(0)},
		"one is missing, admission is off":  {standing{"me", "", "me"}, false, off, int64(2)},
		"no record, one is another's":       {standing{"me", "", "them"}, false, whole, "them"},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			c.has.put(t, n)
			if c.record {
				n.Redis.HSet("record", "nodes", "1")
			}
			_, before := standingAt(n)
			answer := eval(protocol.RenewAll, 4, "a", "b", "c", "record", "me", time.Minute.Milliseconds(), c.least)
			after, ttls := standingAt(n)
			if holder, isHolder := c.answer.(string); isHolder {
				require.Equal(t, []any{[]byte(holder), int64(10_000)}, answer, name)
			} else {
				require.Equal(t, c.answer, answer, name)
			}
			queue, _ := n.Redis.ZMembers("redlock::queue:b")
			switch c.answer {
			case int64(1), int64(2):
				require.Equal(t, standing{"me", "me", "me"}, after, name)
				require.Equal(t, [3]time.Duration{time.Minute, time.Minute, time.Minute}, ttls, name)
				require.Equal(t, c.has[1] == kept, slices.Equal(queue, []string{testnet.SecondTicket}), "%s: the waiter is back", name)
			default:
				require.Equal(t, c.has, after, name)
				require.Equal(t, before, ttls, name)
				require.Empty(t, queue, name)
			}
		})
	}
}

// A release deletes the keys that are the owner's, and confirms that it released the lease only if all
// of them were.
func TestReleaseOfASetDeletesItsOwnKeysAlone(t *testing.T) {
	const kept = protocol.Reservation + testnet.SecondTicket
	for name, c := range map[string]struct {
		has    standing
		answer int64
		left   standing
	}{
		"all stand":              {standing{"me", "me", "me"}, 1, standing{}},
		"the last is missing":    {standing{"me", "me", ""}, 0, standing{}},
		"the first is another's": {standing{"them", "me", "me"}, 0, standing{"them"}},
		"the last is another's":  {standing{"me", "me", "them"}, 0, standing{"", "", "them"}},
		"one is reserved":        {standing{"me", kept, "me"}, 0, standing{"", kept, ""}},
		"readers hold one":       {standing{"me", protocol.Shared, "me"}, 0, standing{"", protocol.Shared, ""}},
		"none is the owner's":    {standing{"them", "", "them"}, 0, standing{"them", "", "them"}},
		"nothing stands":         {standing{}, 0, standing{}},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			c.has.put(t, n)
			require.EqualValues(t, c.answer, eval(protocol.ReleaseAll, testnet.AllKeys(abc, "me")...), name)
			left, _ := standingAt(n)
			require.Equal(t, c.left, left, name)
		})
	}
}

// A node grants a set if all its locks are to be had, and else sets nothing and counts nothing.
func TestNodeGrantsASetOrChangesNoLock(t *testing.T) {
	const earlier, later = protocol.Reservation + testnet.FirstTicket, protocol.Reservation + testnet.ThirdTicket
	own := protocol.Reservation + testnet.SecondTicket + "+"
	for name, c := range map[string]struct {
		has     standing
		refuses string
	}{
		"all are free":                       {standing{}, ""},
		"one is reserved for a later ticket": {standing{"", later, ""}, ""},
		"all are reserved for it":            {standing{own, own, own}, ""},
		"one is reserved for it":             {standing{own, "", ""}, ""},
		"the last is held":                   {standing{"", "", "them"}, "them"},
		"the first is held":                  {standing{"them", "", ""}, "them"},
		"two are held":                       {standing{"", "these", "those"}, "these"},
		"readers hold one":                   {standing{"", protocol.Shared, ""}, protocol.Shared},
		"one is reserved before":             {standing{"", "", earlier}, earlier},
		"one is held, others are kept":       {standing{own, own, "them"}, "them"},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			n.Redis.HSet("record", "7", "20", "8", "30")
			c.has.put(t, n)
			require.Equal(t, c.refuses, testnet.AskAll(t, eval, abc, testnet.SecondTicket+"+", 0), name)
			has, ttls := standingAt(n)
			counts := []string{n.Redis.HGet("record", "7"), n.Redis.HGet("record", "8")}
			if owner := "of " + testnet.SecondTicket + "+"; c.refuses == "" {
				require.Equal(t, standing{owner, owner, owner}, has, name)
				require.Equal(t, [3]time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}, ttls, name)
				require.Equal(t, []string{"31", "31"}, counts, name)
				queue, _ := n.Redis.ZMembers("redlock::queue:b")
				require.Equal(t, c.has[1] == later, slices.Equal(queue, []string{testnet.ThirdTicket}), "%s: the waiter is back", name)
				return
			}
			for i, value := range has {
				if protocol.IsHolder(c.has[i]) || c.has[i] == protocol.Shared || c.has[i] == earlier {
					require.Equal(t, c.has[i], value, name)
				} else {
					require.False(t, protocol.IsHolder(value), name)
				}
			}
			require.Equal(t, []string{"20", "30"}, counts, name)
		})
	}
}
