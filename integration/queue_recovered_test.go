package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// deadTicket is the ticket of a dead client that came before all others.
const deadTicket = "0000000000000001-deadclient-0000000001"

// The waiters find the key missing at nodes that lost their memory, and the nodes reserve it
// for one that is dead: the holder's renewal restores it all the same.
func TestRecoveredNodesGetTheHoldersKeyBackWhileOthersWait(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second))
	lease, err := holder.Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	var waiters []<-chan struct{}
	for range 4 {
		waiters = append(waiters, queueUp(t, openClient(t, nodes.URLs())))
	}
	awaitQueue(t, nodes, len(waiters))

	lost := nodes[:2]
	lost.Kill(t)
	lost.Start(t)
	for _, n := range lost {
		n.Do(t, "SET", prefix+queueName, "redlock::reserved:"+deadTicket, "PX", ttl.Milliseconds())
	}
	back := func() bool {
		return !slices.ContainsFunc(lost, func(n *cluster.Node) bool { return n.Get(t, prefix+queueName) != lease.Owner() })
	}
	// Long before the reservations end.
	assert.True(t, eventually(soon, back), "the key is not back")
	time.Sleep(time.Second) // while the waiters poll
	assert.True(t, back(), "the key did not stay")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
	for _, served := range waiters {
		assertServedSoon(t, served)
	}
	assertNothingWaits(t, nodes)
}
