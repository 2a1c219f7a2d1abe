package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

func TestServerGivenTwiceHasOneVote(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 2)
	client := newClient(t, barePools(0, nodes[0].Addr(), nodes[0].ProxyAddr(), nodes[1].Addr()), shortTimeout())
	assertUsable(t, client, "name")
	nodes[1].Freeze(t)
	_, err := client.Mutex("name").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.ErrorContains(t, err, "same server")
	err = client.Ping(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.ErrorContains(t, err, "same server")
}

func TestReplicaAmongMastersHasNoVoteAndIsNamed(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	nodes[2].FollowOther(t, nodes[0])
	client := openClient(t, nodes.URLs(), shortTimeout())
	assertUsable(t, client, "name")
	nodes[0].Freeze(t)
	for _, err := range []error{
		func() error { _, err := client.Mutex("name").TryLock(t.Context()); return err }(),
		client.Ping(t.Context()),
	} {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorContains(t, err, nodes[2].Addr())
		assert.ErrorContains(t, err, "replica")
	}
}
