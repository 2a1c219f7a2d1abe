package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Clients have lists of masters that differ.

// clientOf makes a client with these nodes as its list, and pools that can be cut off.
func clientOf(net *testnet.Net, list []int, opts ...redlock.ClientOption) (*redlock.Client, []*testnet.Cuttable) {
	var nodes testnet.Nodes
	for _, i := range list {
		nodes = append(nodes, net.Nodes[i])
	}
	return net.CuttableClientOf(nodes, append(slices.Clone(shortGuard), opts...)...)
}

// mastersOf returns which of the masters each node is.
func mastersOf(c *redlock.Client) (all []string) {
	for _, n := range c.Stats().Nodes {
		all = append(all, n.Master)
	}
	return all
}

// A client got its new list too early: the old master is alive, and in the list in force.
func TestClientWithAnotherListUsesTheListInForce(t *testing.T) {
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		before, _ := clientOf(net, []int{0, 1, 2})
		held := net.Must(before.Mutex("x").Lock(t.Context()))
		log := new(testnet.Journal)
		after, _ := clientOf(net, []int{0, 1, 3}, redlock.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		net.Held(after.Mutex("x").TryLock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
		held = net.Must(after.Mutex("x").Lock(t.Context()))
		net.Held(before.Mutex("x").TryLock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))

		time.Sleep(5 * time.Second)
		require.Contains(t, log.String(), "it is no master of the list that node 0 (test-0) has, test-0 test-1 test-2; this client has test-0 test-1 test-3")
		require.Empty(t, net.Nodes[3].Redis.HGet(protocol.MembersKey, "id"), "the other server is left alone")
		inForce := []string{"test-0", "test-1", "test-2"}
		require.Equal(t, inForce, before.Members())
		require.Equal(t, inForce, after.Members())
		require.Equal(t, inForce, mastersOf(before))
		require.Equal(t, []string{"test-0", "test-1", ""}, mastersOf(after))
		net.Nodes[0].Down()
		time.Sleep(time.Second)
		require.Empty(t, after.Members(), "it reaches one master of the list")
		require.Equal(t, inForce, mastersOf(before), "also while one is down")
		net.Must(before.Mutex("x").Lock(t.Context()))
		net.NoQuorum(after.Mutex("y").TryLock(t.Context()))
	})
}

// The same servers under other addresses are the same masters: their servers say which.
func TestClientFindsTheMastersUnderOtherAddresses(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		first, _ := clientOf(net, []int{0, 1, 2})
		held := net.Must(first.Mutex("x").Lock(t.Context()))
		second := named(net, "proxy-2", "proxy-1", "proxy-0")
		require.Empty(t, second.Members(), "it has seen no list yet")
		net.Held(second.Mutex("x").TryLock(t.Context()))
		time.Sleep(time.Second) // the first node that it saw is looked at again: one of them alone did not show that the list is its own
		require.Equal(t, []string{"test-0", "test-1", "test-2"}, mastersOf(second), "by what the servers say")
		require.NoError(t, held.Unlock(t.Context()))
		net.Must(second.Mutex("x").Lock(t.Context()))

		// It knows the masters from then on: also one that was wiped.
		require.NoError(t, first.Close())
		net.Nodes[1].Redis.FlushAll()
		time.Sleep(15 * time.Second)
		require.True(t, members(second)[1].Current().Votes)
		require.Equal(t, "test-1", net.Nodes[1].Redis.HGet(protocol.MembersKey, "self"))
	})
}

// A server with the data of another master must not vote for it a second time.
func TestServerWithTheDataOfAnotherMasterDoesNotVote(t *testing.T) {
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		first, _ := clientOf(net, []int{0, 1, 2})
		net.Must(first.Mutex("x").Lock(t.Context()))
		net.Nodes[3].Restart(net.Nodes[2].Snapshot())
		second, _ := clientOf(net, []int{0, 1, 3})
		time.Sleep(time.Minute)
		require.NoError(t, second.Ping(t.Context()))
		require.ErrorContains(t, members(second)[2].Current().Why(), "it is no master of the list that node 0 (test-0) has")
		both, _ := clientOf(net, []int{1, 2, 3})
		time.Sleep(time.Minute)
		require.False(t, members(both)[2].Current().Votes)
	})
}

// A lease is of the list by which it was granted: where that is forgotten, a key that came late prolongs nothing.
func TestRenewalCountsWhereTheListIsRemembered(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, _ := clientOf(net, []int{0, 1, 2})
		held := net.Must(c.Mutex("x").Lock(t.Context()))
		for _, n := range net.Nodes[:2] {
			n.Redis.FlushAll()
			require.NoError(t, n.Redis.Set("redlock:x", held.Owner()))
			n.Redis.SetTTL("redlock:x", 2*time.Second)
		}
		time.Sleep(3 * time.Second)
		require.False(t, held.Valid())
	})
}

// Two lists begin, of clients that reach some of the servers at some times. Servers are wiped meanwhile.
func TestListsThatBeginAtOnceLetOneHold(t *testing.T) {
	for _, lists := range [][2][]int{{{0, 1, 2}, {0, 1, 3}}, {{1, 2, 3}, {0, 1, 2}}, {{0, 2, 3}, {1, 2, 3}}} {
		for run := range testnet.Tries(2, 100) {
			t.Run(fmt.Sprint(lists, run), func(t *testing.T) {
				testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) { beginAtOnce(t, net, lists, uint64(run)) })
			})
		}
	}
}

func beginAtOnce(t *testing.T, net *testnet.Net, lists [2][]int, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 51))
	var last atomic.Pointer[redlock.Lease] // a lease that ends by itself is released at that very instant, and the next may begin then
	var token, leases atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	over := make(chan struct{})
	var pools []*testnet.Cuttable
	for _, list := range lists {
		c, its := clientOf(net, list)
		pools = append(pools, its...)
		go func() {
			defer func() { over <- struct{}{} }()
			for ctx.Err() == nil {
				lease, err := c.Mutex("x").Lock(ctx)
				if err != nil {
					continue
				}
				if lease.Valid() {
					leases.Add(1)
					before := last.Swap(lease)
					assert.False(t, before != nil && before.Valid(), "two hold")
					assert.Greater(t, lease.Token(), token.Swap(lease.Token()))
					select {
					case <-lease.Done():
					case <-time.After(testnet.UpTo(rand.New(rand.NewPCG(seed, uint64(lease.Token()))), 3*time.Second)):
					}
				}
				_ = lease.Unlock(ctx)
			}
		}()
	}
	for began := time.Now(); time.Since(began) < 70*time.Second; {
		for _, p := range pools {
			p.Hold(draw.IntN(3) == 0)
		}
		if draw.IntN(4) == 0 {
			net.Nodes[draw.IntN(4)].Redis.FlushAll()
		}
		time.Sleep(testnet.UpTo(draw, 8*time.Second))
	}
	testnet.Hold(pools, false)
	<-over
	<-over
	require.NotZero(t, leases.Load(), "nobody is served when all trouble is over")
}

// A server remembers another list, which may be in force at servers that this client does not know.
func TestListDoesNotBeginWhereAnotherIsRemembered(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for i, id := range []string{"one", "other"} {
			n := net.Nodes[1+i]
			n.Redis.HSet(protocol.MembersKey, "id", id, "masters", "test-0 test-1 test-2", "self", n.String())
		}
		c, _ := clientOf(net, []int{0, 1, 2})
		time.Sleep(time.Minute)
		require.ErrorContains(t, c.Ping(t.Context()), "a master of another list")
		require.Empty(t, net.Nodes[0].Redis.HGet(protocol.MembersKey, "id"))
	})
}
