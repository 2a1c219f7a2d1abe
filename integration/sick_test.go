package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// sickness is a state in which a server answers, but does not vote.
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
			name:    "NOPERM for the keys",
			fall:    func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "resetkeys", "~others:*") },
			recover: func(t *testing.T, n *cluster.Node) { setDefaultUser(t, n, "~*") },
			cause:   "NOPERM",
		},
		{
			name: "a password that the client does not have",
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
			cause:   "no reply of a Redis server",
		},
	}
}

func TestSickNodeIsNamedTheOthersGoOnAndItIsBackSoonAfterItsRecovery(t *testing.T) {
	notInShort(t)
	for _, s := range sicknesses() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 3)
			sick := nodes[0]
			client := openClient(t, nodes.ProxyURLs(), shortTimeout())
			awaitAllVotes(t, client, nodes)
			held, err := client.Mutex("held").Lock(t.Context())
			require.NoError(t, err)

			s.fall(t, sick)
			assertOthersGoOn(t, client)
			assertNamed(t, client, nodes, s.cause)
			// The sick node may refuse the release, so a quorum needs the node that was cut
			// off.
			require.True(t, eventually(soon, func() bool { return client.Ping(t.Context()) == nil }))
			require.NoError(t, held.Unlock(t.Context()))

			s.recover(t, sick)
			awaitAllVotes(t, client, nodes)
			assertNoKeys(t, nodes)
		})
	}
}

// assertOthersGoOn expects that locks work beside a sick node.
func assertOthersGoOn(t *testing.T, client *redlock.Client) {
	t.Helper()
	for range 10 {
		assertUsable(t, client, "name")
	}
	assert.NoError(t, client.Ping(t.Context()))
}

// assertNamed expects that when the first node's vote is needed, the error says
// which node failed and why.
func assertNamed(t *testing.T, client *redlock.Client, nodes cluster.Nodes, cause string) {
	t.Helper()
	nodes[1].Cut()
	defer nodes[1].Heal()
	// At first the cause may be how the last connection broke.
	var err error
	eventually(soon, func() bool {
		_, err = client.Mutex("name").TryLock(t.Context())
		return err == nil || strings.Contains(err.Error(), cause)
	})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	var failed *redlock.QuorumError
	require.ErrorAs(t, err, &failed)
	vote := failed.Votes[0]
	assert.NotEqual(t, redlock.Outcome("granted"), vote.Outcome)
	assert.ErrorContains(t, vote.Cause, cause)
	assert.Contains(t, vote.Node, nodes[0].ProxyAddr())
	assert.ErrorContains(t, err, vote.Node)
	assert.ErrorContains(t, err, cause)
	t.Logf("the error: %v", err)
}

func TestNodeWithoutScriptsVotesAgainAtOnce(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	for range 5 {
		nodes[0].Do(t, "SCRIPT", "FLUSH")
		assertOthersGoOn(t, client)
		awaitAllVotes(t, client, nodes)
	}
	nodes[1].Freeze(t)
	nodes[0].Do(t, "SCRIPT", "FLUSH")
	lease, err := client.Mutex("name").TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	nodes.Thaw(t)
}
