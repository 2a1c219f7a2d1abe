package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Another program has set keys of locks to 20 MB. Errors stay short, Inspect shows the keys, and ForceUnlock frees them.
func TestLongValuesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	value := strings.Repeat("a long value ", 20<<20/13)
	for _, n := range nodes {
		for _, key := range []string{"redlock:long", "redlock:jobs#0"} {
			n.Do(t, "SET", key, value)
		}
	}
	short := func(what string, err error) {
		if assert.Error(t, err, what) {
			assert.Less(t, len(err.Error()), 3000, what)
		}
	}
	_, err := client.RWMutex("long").TryRLock(t.Context())
	short("TryRLock", err)
	_, err = client.Multi([]string{"long", "other"}).TryLock(t.Context())
	short("Multi", err)
	_, err = client.Mutex("long").TryLock(t.Context())
	short("TryLock", err)
	for _, name := range []string{"long", "jobs#0"} {
		s, err := client.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Len(t, s.Holder, 512)
		_, err = client.ForceUnlock(t.Context(), name)
		require.NoError(t, err)
		lease, err := client.Mutex(name).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	assertNoKeys(t, nodes)
}

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
