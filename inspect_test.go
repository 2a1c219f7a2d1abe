package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
