package admission_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/protocol"
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
		now, _ := group.InForce()
		chosen, err := group.Change(t.Context(), now, now.Next(nodesOf(list...)), admission.Kept)
		if err == nil {
			return chosen
		}
		require.Less(t, time.Since(began), time.Minute, "%v", err)
		var settling *admission.SettlingError
		require.ErrorAs(t, err, &settling)
	}
}

func TestClientsFollowTheListOfMasters(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, _ := clientOf(net, []int{0, 1, 2}, following(net))
		other, _ := clientOf(net, []int{0, 1, 2}, following(net))
		held := net.Must(c.Mutex("held").Lock(t.Context()))
		tool, _ := clientOf(net, []int{0, 1, 2, 3, 4}, redlock.WithRestartGuard(admission.MajorityLossGuard)) // a second master needs it
		net.Must(tool.Mutex("y").Lock(t.Context()))
		token := int64(0)
		for _, list := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 2, 3, 4}, {2, 3, 4}, {3, 4}, {4}, {2, 4}, {1, 2, 4}} {
			time.Sleep(admission.MajorityLossGuard + 5*time.Second) // what the next master waits for
			change(t, tool, list...)
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
