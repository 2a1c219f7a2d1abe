package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// assertHopeless expects that Lock and Ping fail at once, and say why.
func assertHopeless(t *testing.T, client *redlock.Client, why string) {
	t.Helper()
	var err error
	took := timed(func() { _, err = client.Mutex("name").Lock(within(t, 2*soon)) })
	assert.Less(t, took, soon)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.ErrorContains(t, err, why)
	err = client.Ping(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	assert.ErrorContains(t, err, why)
}

func TestOneServerBehindSeveralPoolsIsNoQuorumByItself(t *testing.T) {
	t.Parallel()
	server := cluster.Use(t, 1)[0]
	for range 10 { // the handshakes come in any order
		client := testclient.NewUnready(t, barePools(0, server.Addr(), server.ProxyAddr(), server.Addr()))
		assertHopeless(t, client, "same server")
		require.NoError(t, client.Close())
		assertNoKeys(t, cluster.Nodes{server})
	}
}

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

func TestReplicasNeverMakeAQuorum(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	nodes[1].FollowOther(t, nodes[0])
	nodes[2].FollowOther(t, nodes[0])
	client := openUnready(t, nodes.URLs())
	assertHopeless(t, client, "replica")
	assertNoKeys(t, nodes)

	nodes[1].Lead(t)
	nodes[2].Lead(t)
	awaitAllVotes(t, client, nodes)
	require.NoError(t, client.Ping(t.Context()))
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

func TestBadSettingsAreErrConfigAndNameTheRelation(t *testing.T) {
	t.Parallel()
	url := []string{"redis://127.0.0.1:6379"}
	cases := []struct {
		name string
		make func() error
		says []string
	}{
		{"zero pools", func() error { _, err := redlock.New(nil); return err }, []string{"pool"}},
		{"no URLs", func() error { _, err := redlock.Open(nil); return err }, []string{"pool"}},
		{"a nil pool", func() error {
			_, err := redlock.New(append(barePools(0, "127.0.0.1:6379"), nil))
			return err
		}, []string{"pool 2", "nil"}},
		{"one URL twice", func() error { _, err := redlock.Open(append(url, url...)); return err }, []string{"127.0.0.1:6379"}},
		{"a ttl below its minimum", func() error {
			_, err := redlock.Open(url, redlock.WithTTL(49*time.Millisecond))
			return err
		}, []string{"49ms", "50ms"}},
		{"a ttl that two node timeouts use up", func() error {
			_, err := redlock.Open(url, redlock.WithTTL(time.Second), redlock.WithNodeTimeout(500*time.Millisecond))
			return err
		}, []string{"1s", "500ms", "exceed"}},
		{"a ttl that drift uses up", func() error {
			_, err := redlock.Open(url, redlock.WithTTL(time.Second), redlock.WithDrift(0.95, 0))
			return err
		}, []string{"1s", "950ms", "exceed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.make()
			require.ErrorIs(t, err, redlock.ErrConfig)
			for _, s := range c.says {
				assert.ErrorContains(t, err, s)
			}
		})
	}
	t.Run("an empty name", func(t *testing.T) {
		client := openClient(t, cluster.Use(t, 1).URLs())
		_, err := client.Mutex("").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		assert.ErrorContains(t, err, "name")
		_, err = client.Mutex("").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
	})
}
