package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// following lets a client reach the nodes that come into its list.
func following(net *testnet.Net) redlock.ClientOption {
	return redlock.WithMembers(func(addr string) (redlock.Pool, error) {
		for _, n := range net.Nodes {
			if n.String() == addr {
				return n, nil
			}
		}
		return nil, fmt.Errorf("no node has the address %s", addr)
	})
}

func nodesOf(list ...int) (names []string) {
	for _, i := range list {
		names = append(names, fmt.Sprintf("test-%d", i))
	}
	return names
}

// change has the list in force followed by one of these nodes, by a client that has all nodes.
func change(t *testing.T, tool *redlock.Client, list ...int) protocol.List {
	group := peek.Group(tool).(*admission.Group)
	for began := time.Now(); ; time.Sleep(time.Second) {
		require.Less(t, time.Since(began), time.Minute)
		now, _ := group.InForce()
		if now.ID == "" {
			continue
		}
		chosen, err := group.Change(t.Context(), now, now.Next(nodesOf(list...)), admission.Kept)
		if err == nil {
			return chosen
		}
		var settling *admission.SettlingError
		require.ErrorAs(t, err, &settling)
	}
}

// changes is change, once for each list, each time after what a new master waits for.
func changes(t *testing.T, tool *redlock.Client, lists ...[]int) {
	for _, list := range lists {
		time.Sleep(admission.MajorityLossGuard + 5*time.Second)
		change(t, tool, list...)
	}
}

// begun returns a client of the first three nodes, whose list has begun.
func begun(t *testing.T, net *testnet.Net) *redlock.Client {
	c, _ := clientOf(net, []int{0, 1, 2})
	require.NoError(t, net.Must(c.Mutex("x").Lock(t.Context())).Unlock(t.Context()))
	return c
}

func TestClientsFollowTheListOfMasters(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, _ := clientOf(net, []int{0, 1, 2}, following(net))
		var tape testnet.Tape
		other, _ := clientOf(net, []int{0, 1, 2}, following(net), redlock.WithTrace(tape.Trace()))
		held := net.Must(c.Mutex("held").Lock(t.Context()))
		tool, _ := clientOf(net, []int{0, 1, 2, 3, 4}, redlock.WithRestartGuard(admission.MajorityLossGuard)) // a second master needs it
		net.Must(tool.Mutex("y").Lock(t.Context()))
		token := int64(0)
		for _, list := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 2, 3, 4}, {2, 3, 4}, {3, 4}, {4}, {2, 4}, {1, 2, 4}} {
			changes(t, tool, list)
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				lease, err := other.Mutex("x").Lock(ctx)
				require.NoError(t, err, "%v: %d", list, i)
				require.Greater(t, lease.Token(), token)
				token = lease.Token()
				_, err = c.Mutex("x", redlock.WithWait(time.Second)).Lock(t.Context())
				require.ErrorIs(t, err, redlock.ErrHeld, "%v", list)
				require.NoError(t, lease.Unlock(t.Context()))
				cancel()
			}
			require.NoError(t, held.Err(), "%v", list)
			net.Held(other.Mutex("held").TryLock(t.Context()))
			require.Equal(t, nodesOf(list...), c.Members())
			require.Equal(t, nodesOf(list...), other.Members())
		}
		var told []string
		for _, e := range testnet.Told[redlock.NodeEvent](&tape) {
			if e.Kind == "joined" || e.Kind == "left" {
				_, at, _ := strings.Cut(e.Node, "(")
				told = append(told, string(e.Kind)+" "+strings.TrimSuffix(at, ")"))
			}
		}
		require.Equal(t, []string{"joined test-3", "joined test-4", "left test-1", "left test-0", "left test-2", "left test-3",
			"joined test-2", "joined test-1"}, told)
	})
}

// The one that left shows the list, and the one that is left does not have it yet: the tool died in between.
func TestListThatOnlyAServerThatLeftShowsIsTaken(t *testing.T) {
	testnet.InBubble(t, 2, func(t *testing.T, net *testnet.Net) {
		c, _ := clientOf(net, []int{0, 1})
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		now, _ := peek.Group(c).(*admission.Group).InForce()
		next := now.Next(nodesOf(0))
		_, err := net.Nodes[1].Eval(protocol.InstallCall{Run: protocol.Run(net.Nodes[1].RunID), List: now.ID, Next: next}.Eval())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		net.Must(c.Mutex("x").Lock(ctx))
		require.Equal(t, nodesOf(0), c.Members())
	})
}

// A server that another client made the only master of a list of its own does not take a client's locks over.
func TestListOfOneServerIsNotTakenByAClientOfThree(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, _ := clientOf(net, []int{0, 1, 2})
		held := net.Must(c.Mutex("x").Lock(t.Context()))
		net.Nodes[0].Redis.FlushAll()
		alone, _ := clientOf(net, []int{0})
		net.Must(alone.Mutex("y").Lock(t.Context()))
		time.Sleep(30 * time.Second)
		require.Equal(t, nodesOf(0, 1, 2), c.Members())
		require.NoError(t, held.Err())
	})
}

// A client begins an attempt, and is paused while the list changes twice: a majority of its list is none of the present one.
func TestVoteThatWasBegunUnderAnEarlierListDoesNotCount(t *testing.T) {
	for _, opts := range [][]redlock.ClientOption{nil, {redlock.WithoutFencing()}} {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			c, _ := clientOf(net, []int{0, 1, 2}, append(opts, following(net))...)
			tool, _ := clientOf(net, []int{0, 1, 2, 3, 4}, redlock.WithRestartGuard(admission.MajorityLossGuard))
			m := c.Mutex("x", redlock.WithTTL(time.Minute))
			require.NoError(t, net.Must(m.Lock(t.Context())).Unlock(t.Context()))
			paused := newAttempt(c, m, "owner")
			changes(t, tool, []int{0, 1, 2, 3}, []int{0, 1, 2, 3, 4})
			paused.Send(0, true)
			synctest.Wait()
			for i, a := range paused.Answers() {
				require.NotEqual(t, quorum.Yes, a.Count, "node %d", i)
			}
		})
	}
}

// Each list has the counters of the one before, also where its only master was behind.
func TestTokensGrowWithTheListOfMasters(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := begun(t, net)
		for _, n := range net.Nodes[:2] {
			_, err := n.Redis.HIncrBy(n.Record(), protocol.StripeOf("redlock:x"), 1000)
			require.NoError(t, err)
		}
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		token := lease.Token()
		require.NoError(t, lease.Unlock(t.Context()))
		_, err := net.Nodes[2].Redis.HIncrBy(net.Nodes[2].Record(), protocol.StripeOf("redlock:x"), -1000) // as if it had no part in that
		require.NoError(t, err)
		change(t, c, 0, 2)
		change(t, c, 2)
		require.Greater(t, net.Must(c.Mutex("x").Lock(t.Context())).Token(), token)
	})
}

func TestMinorityChoosesNoList(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := begun(t, net)
		group := peek.Group(c).(*admission.Group)
		now, _ := group.InForce()
		time.Sleep(time.Minute) // nobody settles
		net.Nodes[1].Down()
		net.Nodes[2].Down()
		time.Sleep(time.Second)
		_, err := group.Change(t.Context(), now, now.Next(nodesOf(0, 1)), admission.Kept)
		require.ErrorContains(t, err, "1 of the 3 masters agreed, and 2 must")
		require.Empty(t, net.Nodes[0].Redis.HGet(protocol.MembersKey, "accepted"))
	})
}

// A tool has died when a majority had accepted its proposal: the list may be in force somewhere.
func TestProposalThatAMajorityHasAcceptedIsChosen(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := begun(t, net)
		time.Sleep(time.Minute) // nobody settles
		now, _ := peek.Group(c).(*admission.Group).InForce()
		for _, n := range net.Nodes[:2] {
			call := protocol.ProposeCall{List: now.ID, Record: n.Record(), Ballot: "0-tool", Next: now.Next(nodesOf(0, 1))}
			_, err := n.Eval(call.Eval())
			require.NoError(t, err)
		}
		chosen := change(t, c, 1, 2)
		require.Equal(t, nodesOf(0, 1), chosen.Names())
	})
}

// Lists that differ by two masters may have majorities that do not meet.
func TestListChangesByOneMasterAtATime(t *testing.T) {
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		c := begun(t, net)
		group := peek.Group(c).(*admission.Group)
		now, _ := group.InForce()
		for _, masters := range [][]int{{0, 1, 3}, {0}, {0, 1, 2}} {
			_, err := group.Change(t.Context(), now, now.Next(nodesOf(masters...)), admission.Kept)
			require.ErrorContains(t, err, "one master at a time", masters)
		}
	})
}

// A client starts with the first list when two of its three masters have been replaced. These two still run, and show the
// list that followed.
func TestClientStartsWithAListOfWhichOneMasterIsLeft(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		tool, _ := clientOf(net, []int{0, 1, 2, 3, 4}, redlock.WithRestartGuard(admission.MajorityLossGuard))
		begun(t, net)
		changes(t, tool, []int{0, 1, 2, 3}, []int{1, 2, 3}, []int{1, 2, 3, 4}, []int{2, 3, 4})
		late, _ := clientOf(net, []int{0, 1, 2}, following(net))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		lease, err := late.Mutex("x").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, nodesOf(2, 3, 4), late.Members())

		net.Nodes[0].Down()
		net.Nodes[1].Down()
		alone, _ := clientOf(net, []int{0, 1, 2}, following(net))
		net.NoQuorum(alone.Mutex("x").TryLock(t.Context())) // the only one that answers may be another cluster's by now
	})
}

func TestFunctionOfWithMembersIsCalledUntilItSucceeds(t *testing.T) {
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		var tries atomic.Int64
		c, _ := clientOf(net, []int{0, 1, 2}, redlock.WithMembers(func(addr string) (redlock.Pool, error) {
			switch tries.Add(1) {
			case 1:
				return nil, errors.New("not yet")
			case 2:
				return (*testnet.Node)(nil), nil
			}
			return net.Nodes[3], nil
		}))
		require.NoError(t, net.Must(c.Mutex("x").Lock(t.Context())).Unlock(t.Context()))
		tool, _ := clientOf(net, []int{0, 1, 2, 3})
		time.Sleep(time.Minute)
		change(t, tool, 0, 1, 2, 3)
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 3, tries.Load())
		net.Nodes[0].Down()
		require.NoError(t, net.Must(c.Mutex("x").Lock(t.Context())).Unlock(t.Context()), "by three of four")
	})
}
