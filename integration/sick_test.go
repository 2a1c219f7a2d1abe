package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// recovery is how soon after its own recovery a node must vote again: "a second
// or so". A handshake that began with the sick server lasts four node timeouts at
// most, which is a second; then comes the longest pause between two dials, half a
// second; the rest is for the machine.
const recovery = 2 * time.Second

// A sickness makes a server answer, but not with votes.
type sickness struct {
	name string
	fall func(t *testing.T, n *cluster.Node)
	// recover returns when the server is well again.
	recover func(t *testing.T, n *cluster.Node)
	cause   string // in the errors
}

func sicknesses() []sickness {
	setDefaultUser := func(t *testing.T, n *cluster.Node, rules ...any) {
		n.Do(t, "ACL", append([]any{"SETUSER", "default"}, rules...)...)
	}
	return []sickness{
		{
			name:    "LOADING",
			fall:    func(t *testing.T, n *cluster.Node) { n.RestartLoading(t, 2*time.Second) },
			recover: func(t *testing.T, n *cluster.Node) { n.AwaitLoaded(t) },
			cause:   "LOADING",
		},
		{
			name:    "READONLY, a master that was made a replica",
			fall:    func(t *testing.T, n *cluster.Node) { n.FollowOther(t, n) }, // whom does not matter
			recover: func(t *testing.T, n *cluster.Node) { n.Lead(t) },
			cause:   "replica",
		},
		{
			name:    "OOM",
			fall:    func(t *testing.T, n *cluster.Node) { n.SetConfig(t, "maxmemory", "1") },
			recover: func(t *testing.T, n *cluster.Node) { n.SetConfig(t, "maxmemory", "0") },
			cause:   "OOM",
		},
		{
			name:    "NOPERM for the commands",
			fall:    func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "-@all", "+ping") },
			recover: func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "+@all") },
			cause:   "NOPERM",
		},
		{
			name:    "NOPERM for the keys",
			fall:    func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "resetkeys", "~others:*") },
			recover: func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "~*") },
			cause:   "NOPERM",
		},
		{
			name: "a password that the client has not",
			fall: func(t *testing.T, n *cluster.Node) {
				setDefaultUser(t, n, "resetpass", ">secret")
				n.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			},
			recover: func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "nopass") },
			cause:   "NOAUTH",
		},
		{
			name:    "no RESP",
			fall:    func(_ *testing.T, n *cluster.Node) { n.Garble("HTTP/1.1 400 Bad Request\r\n\r\n") },
			recover: func(_ *testing.T, n *cluster.Node) { n.Heal() },
			cause:   "redigo: unexpected response line",
		},
	}
}

func TestSickNodeIsNamedTheOthersGoOnAndItIsBackSoonAfterItsRecovery(t *testing.T) {
	for _, s := range sicknesses() {
		t.Run(s.name, func(t *testing.T) {
			nodes := cluster.Use(t, 3)
			sick := nodes[0]
			client := openClient(t, nodes.ProxyURLs())
			awaitAllVotes(t, client, nodes)
			held, err := client.Mutex("held").Lock(t.Context())
			require.NoError(t, err)

			s.fall(t, sick)
			assertOthersGoOn(t, client)
			assertNamed(t, client, nodes, s.cause)
			// A sick node may refuse the release, and then owes it; the one that was
			// cut off must be back for a quorum.
			require.True(t, eventually(recovery, func() bool { return client.Ping(t.Context()) == nil }))
			require.NoError(t, held.Unlock(t.Context()))

			s.recover(t, sick)
			took := awaitAllVotes(t, client, nodes)
			t.Logf("back %v after its recovery", took.Round(time.Millisecond))
			assert.Less(t, took, recovery)
			assertNoKeys(t, nodes)
		})
	}
}

// assertOthersGoOn expects that a sick node costs nobody anything.
func assertOthersGoOn(t *testing.T, client *redlock.Client) {
	t.Helper()
	late := watchHiccups(t)
	for range 20 {
		took := timed(func() { assertUsable(t, client, "name") })
		assert.Less(t, took, 3*(nodeTimeout+late.allowance()))
	}
	assert.NoError(t, client.Ping(t.Context()))
}

// assertNamed expects that when the first node's vote is needed, the error says
// which node failed and why.
func assertNamed(t *testing.T, client *redlock.Client, nodes cluster.Nodes, cause string) {
	t.Helper()
	nodes[1].Cut()
	defer nodes[1].Heal()
	late := watchHiccups(t)
	// At first the cause may be how the last connection broke.
	var err error
	eventually(recovery, func() bool {
		took := timed(func() { _, err = client.Mutex("name").TryLock(t.Context()) })
		assert.Less(t, took, nodeTimeout+late.allowance())
		return err == nil || strings.Contains(err.Error(), cause)
	})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	var failed redlock.QuorumError
	require.ErrorAs(t, err, &failed)
	vote := failed.Votes[0]
	assert.NotEqual(t, redlock.Granted, vote.Outcome)
	assert.ErrorContains(t, vote.Cause, cause)
	assert.Contains(t, vote.Node, nodes[0].ProxyAddr())
	assert.ErrorContains(t, err, vote.Node)
	assert.ErrorContains(t, err, cause)
	t.Logf("the error: %v", err)
}

func TestRestartedNodeIsBackSoon(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		nodes := cluster.Use(t, 3)
		urls := nodes.URLs()
		if proxied {
			urls = nodes.ProxyURLs()
		}
		client := openClient(t, urls)
		awaitAllVotes(t, client, nodes)
		nodes[0].Kill(t)
		assertOthersGoOn(t, client)
		nodes[0].Start(t)
		took := awaitAllVotes(t, client, nodes)
		t.Logf("back %v after it served", took.Round(time.Millisecond))
		assert.Less(t, took, recovery)
	}
}

func TestNodeWithoutScriptsVotesAgainAtOnce(t *testing.T) {
	nodes := cluster.Use(t, 3)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	for range 10 {
		nodes[0].Do(t, "SCRIPT", "FLUSH")
		assertOthersGoOn(t, client)
		assert.Less(t, awaitAllVotes(t, client, nodes), recovery)
	}
	nodes[1].Freeze(t)
	nodes[0].Do(t, "SCRIPT", "FLUSH")
	lease, err := client.Mutex("name").TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}
