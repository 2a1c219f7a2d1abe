package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
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

// startServer starts a server with settings of its own, and returns its port. It listens at all addresses of this machine.
func startServer(t *testing.T, args ...string) (port string) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on the PATH")
	}
	free, err := cluster.FreePort()
	require.NoError(t, err)
	port = strconv.Itoa(free)
	dir := t.TempDir()
	file := filepath.Join(dir, "server.conf")
	require.NoError(t, os.WriteFile(file, []byte("dir "+dir+"\nport "+port+"\nbind * -::*\n"), 0o600))
	server := exec.Command(program, append([]string{file}, args...)...)
	server.Stdout, server.Stderr = t.Output(), t.Output()
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	require.True(t, eventually(soon, func() bool {
		socket, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = socket.Close()
		}
		return err == nil
	}), "port %s does not answer", port)
	return port
}

// ownAddress returns an address of this machine that servers do not take for a local one.
func ownAddress(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if own, is := a.(*net.IPNet); is && own.IP.To4() != nil && !own.IP.IsLoopback() {
			return own.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// A server that does not want a connection, or is none for locks, is named with what it said, and
// with the remedy: for the client's own connections and for those of redigo.
func TestServersThatRefuseAConnectionAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why, code string
		plant           func(t *testing.T) (url string)
	}{
		{"protected mode", "the server is in protected mode", "protected-mode", func(t *testing.T) string {
			return "redis://" + ownAddress(t) + ":" + startServer(t, "--protected-mode", "yes")
		}},
		{"no room", "raise maxclients", "max-clients", func(t *testing.T) string {
			addr := "127.0.0.1:" + startServer(t, "--maxclients", "1")
			require.True(t, eventually(soon, func() bool {
				conn, err := redis.Dial("tcp", addr)
				if err == nil {
					_, err = conn.Do("PING")
				}
				if err == nil {
					t.Cleanup(func() { _ = conn.Close() })
				} else if conn != nil {
					_ = conn.Close()
				}
				return err == nil
			}), "the only connection")
			return "redis://" + addr
		}},
		{"a sentinel", "it is a sentinel", "sentinel", func(t *testing.T) string {
			return "redis://127.0.0.1:" + startServer(t, "--sentinel")
		}},
		{"TLS at a plain port", "does it speak TLS", "tls", func(t *testing.T) string {
			return "rediss://127.0.0.1:" + startServer(t)
		}},
		{"no TLS at a port with it", "does it speak TLS?", "no-redis", func(t *testing.T) string {
			return "redis://" + newAuthority(t).startTLS(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := c.plant(t)
			clients := map[string]*redlock.Client{"Open": openUnready(t, []string{url}, shortTimeout())}
			if address, plain := strings.CutPrefix(url, "redis://"); plain {
				clients["redigo"] = testclient.NewUnready(t, barePools(1, address), shortTimeout())
			}
			for kind, client := range clients {
				require.True(t, eventually(soon, func() bool {
					err := client.Stats().Nodes[0].Err
					return err != nil && strings.Contains(err.Error(), c.why)
				}), "%s: %v", kind, client.Stats().Nodes[0].Err)
			}
			found := doctor(t, []string{url})
			require.Len(t, found.nodesWith("danger", c.code), 1, "%+v", found)
			require.Equal(t, 1, found.code)
		})
	}
}
