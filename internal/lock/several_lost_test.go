package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestSetIsRestoredWhereAMinorityLostAKeyAndLostWhereAQuorumDid(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(redlock.WithoutRenewal()), net.Client()
		set := net.Must(c.Multi([]string{"a", "b"}).Lock(t.Context()))
		synctest.Wait()
		net.Nodes[0].Redis.Del("redlock:b")
		require.Equal(t, 2, net.Holders(set))
		require.NoError(t, set.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(set))

		net.Nodes[0].Redis.Del("redlock:b")
		net.Nodes[1].Redis.Del("redlock:a") // each name has a quorum, but at different nodes
		require.ErrorIs(t, set.Extend(t.Context()), redlock.ErrLost)
		synctest.Wait()
		net.RequireNoKeys()
		after := net.Must(other.Multi([]string{"b", "a"}).TryLock(t.Context()))
		require.Greater(t, after.Token(), set.Token())
		require.NoError(t, after.Unlock(t.Context()))
	})
}

func TestSetIsLostWithAnyOfItsNames(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		set := net.Must(c.Multi([]string{"a", "b"}).Lock(t.Context()))
		net.Status(other.ForceUnlock(t.Context(), "b"))
		b := net.Must(other.Mutex("b").TryLock(t.Context()))
		_, err := other.Mutex("a").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "until the holder has noticed")
		<-set.Done()
		require.ErrorIs(t, set.Err(), redlock.ErrLost)
		synctest.Wait()
		a, err := other.Mutex("a").TryLock(t.Context())
		require.NoError(t, err, "the other name is released")
		require.Equal(t, 3, net.Holders(b), "the set's renewals and its release leave it alone")
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, b.Unlock(t.Context()))
	})
}

func TestTokenOfASetIsGreaterThanEveryEarlierOneOfEachName(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		for i, n := range net.Nodes { // each node has counted other grants of each name
			n.Redis.HIncrBy(n.Record(), protocol.StripeOf("redlock:a"), 100*i)
			n.Redis.HIncrBy(n.Record(), protocol.StripeOf("redlock:b"), 1000-100*i)
		}
		a := net.Must(c.Mutex("a").TryLock(t.Context()))
		b := net.Must(c.Mutex("b").TryLock(t.Context()))
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, b.Unlock(t.Context()))
		set := net.Must(c.Multi([]string{"a", "b"}).TryLock(t.Context()))
		require.Greater(t, set.Token(), max(a.Token(), b.Token()))
		require.NoError(t, set.Unlock(t.Context()))
		for _, name := range set.Names() {
			next := net.Must(c.Mutex(name).TryLock(t.Context()))
			require.Greater(t, next.Token(), set.Token())
			require.NoError(t, next.Unlock(t.Context()))
		}
	})
}

func TestCountersOfASetAreRaisedAllOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *testnet.Node)
		answer int64
		counts []string
	}{
		"whole":              {func(*testnet.Node) {}, 1, []string{"90", "95"}},
		"a key is gone":      {func(n *testnet.Node) { n.Redis.Del("b") }, 0, []string{"20", "95"}},
		"a key is another's": {func(n *testnet.Node) { _ = n.Redis.Set("a", "another") }, 0, []string{"20", "95"}},
		"a counter is gone":  {func(n *testnet.Node) { n.Redis.HDel("record", "8") }, 0, []string{"20", ""}},
		"a counter is low":   {func(n *testnet.Node) { n.Redis.HSet("record", "8", "9") }, 0, []string{"20", "9"}},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n, eval := testnet.Scripted(t, net)
			n.Redis.HSet("record", "7", "20", "8", "95")
			for _, key := range []string{"a", "b"} {
				require.NoError(t, n.Redis.Set(key, "owner"))
			}
			c.change(n)
			require.EqualValues(t, c.answer, eval(protocol.Raise, 3, "a", "b", "record", "owner", "7,8", "90", "10"), name)
			require.Equal(t, c.counts, []string{n.Redis.HGet("record", "7"), n.Redis.HGet("record", "8")}, name)
		})
	}
}

func TestSetGetsNoVoteWhereACounterIsMissing(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		n.Redis.HSet("record", "7", "20")
		ask := func() any {
			return eval(protocol.AcquireAll, 5, "a", "b", "redlock::queue:a", "redlock::queue:b", "record", "owner", 10_000, "7,8", "10", "", "", "", "0")
		}
		require.EqualValues(t, -1, ask())
		require.False(t, n.Redis.Exists("a") || n.Redis.Exists("b"))
		require.Equal(t, "20", n.Redis.HGet("record", "7"))
		n.Redis.HSet("record", "8", "50")
		require.EqualValues(t, 51, ask())
		require.Equal(t, []string{"51", "51"}, []string{n.Redis.HGet("record", "7"), n.Redis.HGet("record", "8")})
	})
}

// Names are bytes: what a waiter wants is read as it was written, whatever they contain.
func TestSetOfOddNamesWaitsAndLeavesNothing(t *testing.T) {
	names := []string{"3:abc", "12", "a:", " ", "a, b", "line\nbreak", "\xff\xfe\x00", "ü%1()[]^$", "+", "r"}
	for i := len(names); i < 32; i++ {
		names = append(names, fmt.Sprint("name-", i))
	}
	for _, last := range []string{"12", "line\nbreak", "\xff\xfe\x00", "name-31"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c, other := net.Client(), net.Client()
			held := net.Must(other.Mutex(last).Lock(t.Context()))
			time.AfterFunc(3*time.Second, func() { assert.NoError(t, held.Unlock(t.Context())) })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			set := net.Must(c.Multi(names).Lock(ctx))
			require.InDelta(t, 3000, time.Since(began).Milliseconds(), 10, "%q", last)
			require.Equal(t, slices.Sorted(slices.Values(names)), set.Names())
			require.NoError(t, set.Unlock(t.Context()))
			time.Sleep(time.Second)
			net.RequireNoKeys()
			net.RequireNoTraces()
		})
	}
}

func TestSetThatGivesUpLeavesNothingAtAFrozenNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := testnet.ListeningClient(t, net), net.Client()
		// Its lease is not renewed meanwhile: the frozen node could execute the renewal after the release.
		b := net.Must(other.Mutex("b", redlock.WithTTL(time.Minute)).Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		time.AfterFunc(2*time.Second, net.Nodes[1].Freeze)
		net.Held(c.Multi([]string{"a", "b"}).Lock(ctx))
		net.Nodes[1].Thaw()
		require.NoError(t, b.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		net.RequireNoKeys()
		net.RequireNoTraces()
		for _, n := range testhook.Engine(c).Cluster.Nodes() {
			require.Zero(t, n.Undos())
		}
	})
}

func TestMultiNeedsOneToThirtyTwoDifferentNames(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		synctest.Wait()
		net.Nodes[0].Set(func(n *testnet.Node) { n.Log = nil })
		many := make([]string, 33)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for text, m := range map[string]*redlock.Mutex{
			"has 0 names":       c.Multi(nil),
			"has 33 names":      c.Multi(many),
			"is given twice":    c.Multi([]string{"a", "b", "a"}),
			"is empty":          c.Multi([]string{"a", ""}),
			"which is reserved": c.Multi([]string{"a", "redlock::b"}, redlock.WithPrefix("")),
			"the ttl":           c.Multi([]string{"a"}, redlock.WithTTL(-1)),
		} {
			_, err := m.Lock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, text)
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
		synctest.Wait()
		require.Zero(t, net.Nodes[0].Attempts())

		lease := net.Must(c.Multi(many[:32]).TryLock(t.Context()))
		require.ErrorIs(t, lease.Downgrade(t.Context()), redlock.ErrConfig)
		require.False(t, lease.Shared())
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// ForceUnlock takes one name of a set away, and another caller has held it, before the set's next
// renewal. The release of the set shows that, as that of a mutex does.
func TestReleaseOfASetShowsThatANameWasTakenAway(t *testing.T) {
	for name, lockOf := range map[string]func(c *redlock.Client) *redlock.Mutex{
		"one name":  func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"a"}) },
		"two names": func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"a", "b"}) },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c, other := net.Client(), net.Client()
				set := net.Must(lockOf(c).Lock(t.Context()))
				net.Status(other.ForceUnlock(t.Context(), "a"))
				later := net.Must(other.Mutex("a").TryLock(t.Context()))
				assert.ErrorIs(t, set.Unlock(t.Context()), redlock.ErrLost, "another has a")
				require.NoError(t, later.Unlock(t.Context()))
			})
		})
	}
}

// Two servers are restarted with data in which a set's ticket stands again whose caller has left, ahead of all others. Its
// client lives, and has another caller that waits: so the ticket counts as that of a client that lives.
func TestATicketThatARestartBroughtBackDoesNotBlockASet(t *testing.T) {
	for _, other := range []bool{false, true} {
		name := "of the same client"
		if other {
			name = "with a waiter of another client"
		}
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				names := []string{"x", "y"}
				holder := net.Must(net.Client().Mutex("x").Lock(t.Context()))
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				waits := make(chan *redlock.Lease, 2)
				wait := func(c *redlock.Client) {
					go func() {
						if l, err := c.Multi(names).Lock(ctx); err == nil {
							waits <- l
						}
					}()
					time.Sleep(time.Second)
				}
				wait(testnet.ListeningClient(t, net))
				for _, n := range net.Nodes[:2] {
					for _, name := range names {
						queue := protocol.Key("queue", "redlock:"+name)
						tickets, err := n.Redis.ZMembers(queue)
						require.NoError(t, err)
						require.Len(t, tickets, 1)
						_, err = n.Redis.ZAdd(queue, 0, "0000000000000001"+tickets[0][16:])
						require.NoError(t, err)
					}
				}
				calls := 1
				if other {
					wait(testnet.ListeningClient(t, net))
					calls++
				}
				require.NoError(t, holder.Unlock(ctx))
				for range calls {
					select {
					case lease := <-waits:
						require.NoError(t, lease.Unlock(ctx))
					case <-ctx.Done():
						t.Fatal("a caller that waits got no lock in a minute")
					}
				}
				net.RequireNoKeys()
			})
		})
	}
}
