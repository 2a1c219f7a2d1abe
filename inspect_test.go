package redlock

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/system"
)

func TestInspectTellsHolderLineAndEachNodesView(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client(WithOwnerLabel("the patient one"))
		empty, err := a.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Empty(t, empty.Holder)
		require.Empty(t, empty.Line)

		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		asked := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		gaveUp := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(ctx)
			gaveUp <- err
		}()
		time.Sleep(500 * ms) // in line, and not looking again yet
		net.nodes[3].redis.Del("redlock:x")
		net.nodes[4].redis.Del("redlock:x")
		net.nodes[0].down()
		time.Sleep(10 * ms)
		s, err := a.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "x", s.Name)
		require.Empty(t, s.Holder, "two nodes are no quorum")
		require.NoError(t, lease.Extend(t.Context()))
		s, err = a.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), s.Holder)
		require.InDelta(t, 10*time.Second, s.Remaining, float64(time.Second))
		require.Equal(t, lease.Token()+1, s.Token, "who was refused is counted too")
		require.Error(t, s.Nodes[0].Err)
		require.Equal(t, lease.Owner(), s.Nodes[1].Holder)
		require.Len(t, s.Line, 1)
		require.Equal(t, "the patient one", s.Line[0].Label)
		require.WithinDuration(t, asked, s.Line[0].Since, 100*ms)
		require.GreaterOrEqual(t, s.Line[0].Nodes, 3)

		var held *HeldError
		require.ErrorAs(t, <-gaveUp, &held)
		require.Equal(t, 1, held.Place)
		require.Equal(t, lease.Owner(), held.Holder)
		require.ErrorContains(t, held, "place 1 in line")

		net.nodes[1].down()
		net.nodes[2].down()
		time.Sleep(10 * ms)
		s, err = a.Inspect(t.Context(), "x")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, lease.Owner(), s.Nodes[3].Holder, "what the others say is told all the same")
		_, err = a.Inspect(t.Context(), "")
		require.ErrorIs(t, err, ErrConfig)
	})
}

// A node that is silent does not cost Inspect the answers of those after it, which came
// in time.
func TestInspectCountsWhatCameWhileItWaitedForAnotherNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[0].freeze()
		for range 10 { // an answer and the end of time are both there: either could be taken
			s, err := c.Inspect(t.Context(), "x")
			require.NoError(t, err)
			require.Error(t, s.Nodes[0].Err)
			require.NoError(t, s.Nodes[1].Err)
			require.NoError(t, s.Nodes[2].Err)
		}
	})
}

func TestInspectAndForceUnlockNameTheHolderOfAnEmptyValue(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:x", ""))
			n.redis.SetTTL("redlock:x", time.Minute)
		}
		for _, look := range []func(context.Context, string) (Status, error){c.Inspect, c.ForceUnlock} {
			s, err := look(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, "(an empty value)", s.Holder)
			require.Equal(t, time.Minute, s.Remaining)
			for _, n := range s.Nodes {
				require.Equal(t, "(an empty value)", n.Holder)
				require.Equal(t, time.Minute, n.Remaining)
			}
		}
		s, err := c.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Empty(t, s.Holder, "the lock was freed")
		require.Empty(t, s.Nodes[0].Holder)
		require.Zero(t, s.Nodes[0].Remaining)
	})
}

func TestInspectAndForceUnlockClampLongTTLs(t *testing.T) {
	const longest = system.Forever / ms * ms
	for pttl, want := range map[int64]time.Duration{
		-1: endless, 0: 0, 1: ms,
		int64(longest/ms) - 1: longest - ms, int64(longest / ms): longest, int64(longest/ms) + 1: longest,
		1 << 62: longest, math.MaxInt64: longest,
	} {
		var n NodeStatus
		require.NoError(t, n.understand([]any{[]byte("them"), pttl, []byte("7"), []any{}}, nil))
		require.Equal(t, want, n.Remaining, "inspect, %d", pttl)
		require.Equal(t, want, readSeized([]any{int64(7), []byte("them"), pttl}).Remaining, "seize, %d", pttl)
		s := Status{Nodes: []NodeStatus{n}}
		s.sum(1)
		require.Equal(t, want, s.Remaining)
	}
}
