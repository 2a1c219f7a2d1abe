package redlockgoredis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgoredis"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// newClient makes a client, which is closed at the end of the test.
func newClient(t *testing.T, o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// options returns options for each node.
func options(t *testing.T, nodes *redlocktest.Nodes) []*redis.Options {
	var all []*redis.Options
	for _, url := range nodes.URLs() {
		o, err := redis.ParseURL(url)
		require.NoError(t, err)
		all = append(all, o)
	}
	return all
}

func TestPoolsUseTheClientsOwnDialers(t *testing.T) {
	var clients []*redis.Client
	dials := make([]int, 3)
	for i, o := range options(t, redlocktest.Start(t, 3)) {
		addr := o.Addr
		o.Addr, o.ClientName = "a name that only the dialer knows", "billing"
		o.Dialer = func(ctx context.Context, network, name string) (net.Conn, error) {
			require.Equal(t, o.Addr, name)
			dials[i]++
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		clients = append(clients, newClient(t, o))
	}
	c := testclient.New(t, redlockgoredis.Pools(clients...))
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	for i, s := range c.Stats().Nodes {
		require.Contains(t, s.Node, "a name that only the dialer knows")
		require.Equal(t, "up", s.State)
		require.Positive(t, dials[i])
	}
}

func TestClientsThatAreNoMasters(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	sentinel := newFailover(t)
	connecting := newClient(t, &redis.Options{Addr: "a:1", OnConnect: func(context.Context, *redis.Conn) error { return nil }})
	for want, client := range map[string]redis.UniversalClient{
		"a ClusterClient spreads":      cluster,
		"a Ring spreads":               ring,
		"see AllowFailover":            sentinel,
		"a:1 has an OnConnect":         connecting,
		"the client is nil":            (*redis.Client)(nil),
		"<nil> is not a *redis.Client": nil,
	} {
		p, err := redlockgoredis.Pool(client)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, want)
		require.Nil(t, p)
	}
	_, err := redlockgoredis.Pool(sentinel, redlockgoredis.AllowFailover(), nil)
	require.NoError(t, err)
}

func newFailover(t *testing.T) *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestFailoverClientAmongOthersDoesNotVote(t *testing.T) {
	all := options(t, redlocktest.Start(t, 2))
	c := testclient.New(t, redlockgoredis.Pools(newClient(t, all[0]), newFailover(t), newClient(t, all[1])))
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	node := c.Stats().Nodes[1]
	require.Equal(t, "unfit", node.State)
	require.ErrorContains(t, node.Err, "a client of Sentinel may change its master")
	require.True(t, strings.Contains(node.Node, "FailoverClient"), node.Node)
}

func TestNewRefusesANilClient(t *testing.T) {
	_, err := redlock.New(redlockgoredis.Pools(nil))
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorContains(t, err, "pool 1 of 1 is nil")
}

func TestCredentialsComeFromTheClientsProvider(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for name, set := range map[string]func(*redis.Options){
		"context": func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				return "", "", errors.New("asked the context's provider")
			}
			o.CredentialsProvider = func() (string, string) { panic("the other one comes first") }
		},
		"plain": func(o *redis.Options) {
			o.Username, o.Password = "me", "not used"
			o.CredentialsProvider = func() (string, string) { return "", "" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, nodes)[0]
			set(o)
			p, err := redlockgoredis.Pool(newClient(t, o))
			require.NoError(t, err)
			conn, err := p.GetContext(t.Context())
			if name == "context" {
				require.ErrorContains(t, err, "no credentials: asked the context's provider")
				return
			}
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		})
	}
}
