package lock_test

import (
	"context"
	"slices"
	"strconv"
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

func TestMultiHoldsAllNamesOrNone(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		before := net.Must(other.Mutex("b").Lock(t.Context()))
		held := net.Held(c.Multi([]string{"b", "a"}).TryLock(t.Context()))
		require.Equal(t, before.Owner(), held.Holder)
		require.Equal(t, "a, b", held.Name)
		free, err := other.Mutex("a").TryLock(t.Context())
		require.NoError(t, err, "nothing of the refused attempt is held")
		require.NoError(t, free.Unlock(t.Context()))
		require.NoError(t, before.Unlock(t.Context()))

		set, err := c.Multi([]string{"b", "a"}).TryLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, set.Names())
		require.Equal(t, "a, b", set.Name())
		require.Greater(t, set.Token(), max(before.Token(), free.Token()))
		require.False(t, set.Shared())
		for _, name := range set.Names() {
			_, err = other.Mutex(name).TryLock(t.Context())
			require.ErrorAs(t, err, &held)
			require.Equal(t, set.Owner(), held.Holder)
			_, err = other.RWMutex(name).TryRLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
			_, err = other.Multi([]string{"c", name}).TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		require.NoError(t, set.Extend(t.Context()))
		require.NoError(t, set.Unlock(t.Context()))
		for _, name := range set.Names() {
			after := net.Must(other.Mutex(name).TryLock(t.Context()))
			require.Greater(t, after.Token(), set.Token())
			require.NoError(t, after.Unlock(t.Context()))
		}
		net.RequireNoKeys()
	})
}

// Eight clients ask for {a, b}, {b, a} or {a}, again and again. Lists of names in different orders make
// no deadlock, and nobody is passed by: each client has its share of the turns.
func TestCallersWithOverlappingNamesHaveEqualTurns(t *testing.T) {
	testnet.SlowWithRace(t)
	const turns = 2000
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		asked := [][]string{{"a", "b"}, {"b", "a"}, {"a"}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex // protects what follows
		done, held, served := 0, map[string]int{}, make([]int, 8)
		enter := func(names []string, by int) {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range names {
				held[name] += by
				assert.LessOrEqual(t, held[name], 1, "%s has two holders", name)
			}
		}
		for i := range served {
			c := net.Client()
			m := c.Multi(asked[i%3])
			if len(asked[i%3]) == 1 {
				m = c.Mutex(asked[i%3][0])
			}
			all.Go(func() {
				for {
					lease, err := m.Lock(ctx)
					if err != nil {
						return
					}
					enter(lease.Names(), 1)
					time.Sleep(3 * ms)
					enter(lease.Names(), -1)
					assert.NoError(t, lease.Unlock(t.Context()))
					mu.Lock()
					served[i]++
					if done++; done == turns {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		began := time.Now()
		all.Wait()
		t.Logf("%v turns of each client in %v", served, time.Since(began))
		for i, n := range served {
			share := float64(n) * float64(len(served)) / float64(turns)
			assert.True(t, 0.8 <= share && share <= 1.25, "client %d has %.2f of its share", i, share)
		}
		assert.Less(t, time.Since(began), time.Duration(turns)*15*ms, "a turn takes 3 ms, and a hand-off some trips of 2 ms")
	})
}

// Two names share a counter: a lease of both counts it once, and its token follows those of each.
func TestNamesThatShareACounterAreCountedOnce(t *testing.T) {
	const first, second = "name-68", "name-86"
	stripe := protocol.StripeOf("redlock:" + first)
	require.Equal(t, stripe, protocol.StripeOf("redlock:"+second))
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		count := func() (all []int64) {
			synctest.Wait()
			for _, n := range net.Nodes {
				value, err := strconv.ParseInt(n.Redis.HGet(n.Record(), stripe), 10, 64)
				require.NoError(t, err)
				all = append(all, value)
			}
			return all
		}
		var last int64
		for _, m := range []*redlock.Mutex{c.Mutex(first), c.Multi([]string{first, second}), c.Mutex(second), c.Multi([]string{second, "other", first})} {
			before := count()
			lease := net.Must(m.TryLock(t.Context()))
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			after := count()
			for i := range after {
				if len(lease.Names()) == 2 {
					require.Equal(t, before[i]+1, after[i])
				}
				require.Equal(t, last, after[i])
			}
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// A set of one name is as good as a mutex of that name.
func TestSetOfOneNameAndItsMutexExcludeEachOther(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		var last int64
		for _, pair := range [][2]*redlock.Mutex{
			{c.Mutex("x"), other.Multi([]string{"x"})},
			{c.Multi([]string{"x"}), other.Mutex("x")},
			{c.Multi([]string{"x"}), other.Multi([]string{"x"})},
			{c.RWMutex("x").RLocker(), other.Multi([]string{"x"})},
			{c.Multi([]string{"x"}), other.RWMutex("x").RLocker()},
		} {
			lease := net.Must(pair[0].TryLock(t.Context()))
			require.Equal(t, "x", lease.Name())
			require.Equal(t, []string{"x"}, lease.Names())
			require.Equal(t, 3, net.Holders(lease))
			net.Held(pair[1].TryLock(t.Context()))
			if !lease.Shared() {
				require.Greater(t, lease.Token(), last)
				last = lease.Token()
			}
			require.NoError(t, lease.Extend(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
			next := net.Must(pair[1].TryLock(t.Context()))
			require.GreaterOrEqual(t, next.Token(), last)
			last = next.Token()
			require.NoError(t, next.Unlock(t.Context()))
			net.RequireNoKeys()
		}
	})
}

// A TryLock of a free name that a set keeps is cut off before its rollback: without a right to the name, its key
// must not keep the set out for a ttl.
func TestTryLockOfAKeptNameThatIsCutOffDoesNotKeepTheSetOut(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		dying, pools := net.CuttableClient()
		b := net.Must(holder.Mutex("b").Lock(t.Context()))
		entered := make(chan error, 1)
		go func() {
			lease, err := c.Multi([]string{"a", "b"}).Lock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			entered <- err
		}()
		time.Sleep(100 * ms)
		net.Delay(5 * ms)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		go func() { _, _ = dying.Mutex("a").TryLock(ctx) }()
		time.Sleep(7 * ms) // the nodes have set the key; the answers are on their way
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		require.NoError(t, b.Unlock(t.Context()))
		began := time.Now()
		require.NoError(t, <-entered)
		assert.Less(t, time.Since(began), 3*time.Second)
	})
}

// Another program puts a list in the place of one key of a set. The release frees the other names, and
// hands them to their waiters.
func TestReleaseOfASetFreesItsNamesBesideAKeyOfAnotherType(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := net.Client(), testnet.ListeningClient(t, net)
		set := net.Must(c.Multi([]string{"a", "b", "c"}).Lock(t.Context()))
		entered := map[string]chan *redlock.Lease{"a": make(chan *redlock.Lease, 1), "c": make(chan *redlock.Lease, 1)}
		for name, got := range entered {
			go func() {
				if lease, err := d.Mutex(name).Lock(t.Context()); assert.NoError(t, err) {
					got <- lease
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:b")
			_, err := n.Redis.Lpush("redlock:b", "of another program")
			require.NoError(t, err)
		}
		_ = set.Unlock(t.Context())
		began := time.Now()
		for _, name := range []string{"a", "c"} {
			lease := <-entered[name]
			assert.Less(t, time.Since(began), time.Second/2, name)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// The same of a waiter that leaves: it leaves the queues of all names.
func TestWaiterForASetLeavesItsQueuesBesideAKeyOfAnotherType(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := net.Client(), testnet.ListeningClient(t, net)
		c0 := net.Must(c.Mutex("c").Lock(t.Context()))
		failed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := d.Multi([]string{"a", "b", "c"}).Lock(ctx)
			failed <- err
		}()
		time.Sleep(500 * time.Millisecond)
		for _, n := range net.Nodes {
			n.Redis.Del("redlock:b") // it is reserved
			_, err := n.Redis.Lpush("redlock:b", "of another program")
			require.NoError(t, err)
		}
		require.ErrorIs(t, <-failed, redlock.ErrNoQuorum)
		time.Sleep(100 * time.Millisecond)
		for _, n := range net.Nodes {
			for _, key := range n.Keys() {
				assert.NotContains(t, key, "redlock::queue", "node %d", n.Index)
				assert.NotContains(t, key, "redlock::wants", "node %d", n.Index)
			}
		}
		require.NoError(t, c0.Unlock(t.Context()))
	})
}

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
	const kept, whole, off = protocol.Reservation + testnet.SecondTicket, "list", ""
	for name, c := range map[string]struct {
		has    standing
		record bool
		list   string // off where admission is off
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
			n.Redis.HSet("members", "id", "list")
			_, before := standingAt(n)
			answer := eval(protocol.RenewAll, 5, "a", "b", "c", "record", "members", "me", time.Minute.Milliseconds(), c.list)
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

// A node grants a set if each of its locks is free. Else the node sets no key and counts nothing.
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
