package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// A transfer ends at any time of its trip. The lease goes on, is transferred at last, and resumed.
func TestTransferThatIsCancelledInMidBallot(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	client, next := openClient(t, nodes.ProxyURLs()), openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	awaitAllVotes(t, next, nodes)
	for _, n := range nodes {
		n.Delay(5 * time.Millisecond)
	}
	for i := range 15 {
		name := fmt.Sprint("name-", i)
		lease, err := client.Mutex(name).Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		text, err := lease.Transfer(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, lease.Extend(t.Context()))
			_, err := next.Mutex(name).TryLock(t.Context())
			held := new(redlock.HeldError)
			require.ErrorAs(t, err, &held)
			require.Equal(t, lease.Owner(), held.Holder)
			text, err = lease.Transfer(t.Context())
			require.NoError(t, err)
		}
		resumed, err := next.Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
	}
	assertNoKeys(t, nodes)
}
