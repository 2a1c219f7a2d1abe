package redlockrueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockrueidis"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func requireLocks(t *testing.T, options ...rueidis.ClientOption) *redlock.Client {
	pools, err := redlockrueidis.Pools(options...)
	require.NoError(t, err)
	c := testclient.New(t, pools)
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	return c
}

func TestPoolsConnectAsTheClientDoes(t *testing.T) {
	var options []rueidis.ClientOption
	for _, url := range redlocktest.Start(t, 3).URLs() {
		options = append(options, rueidis.MustParseURL(url))
	}
	direct := new(net.Dialer)
	addrs := []string{options[1].InitAddress[0], options[2].InitAddress[0]}
	options[1].InitAddress = []string{"known to DialCtxFn"}
	options[1].DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return direct.DialContext(ctx, "tcp", addrs[0])
	}
	options[2].InitAddress = []string{"known to DialFn"}
	options[2].DialFn = func(_ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) { return d.Dial("tcp", addrs[1]) }
	c := requireLocks(t, options...)
	for i, s := range c.Stats().Nodes {
		require.Equal(t, "up", s.State)
		require.Equal(t, fmt.Sprintf("node %d (%s)", i, options[i].InitAddress[0]), s.Node)
	}
}

func TestCredentialsAreAskedForAtEachConnection(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("me", "secret")
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "me", Password: "secret"}
	requireLocks(t, option)
	option.Username, option.Password = "not used", "not used"
	option.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		require.Equal(t, "tcp "+server.Addr(), c.Address.Network()+" "+c.Address.String())
		return rueidis.AuthCredentials{Username: "me", Password: "secret"}, nil
	}
	requireLocks(t, option)
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{}, errors.New("the vault is sealed")
	}
	p, err := redlockrueidis.Pool(option)
	require.NoError(t, err)
	_, err = p.GetContext(t.Context())
	require.ErrorContains(t, err, "no credentials: the vault is sealed")
}

func TestPoolsUseTheOptionsTLS(t *testing.T) {
	pair := httptest.NewTLSServer(nil) // has a certificate, and a client that trusts it
	defer pair.Close()
	server, err := miniredis.RunTLS(&tls.Config{Certificates: pair.TLS.Certificates})
	require.NoError(t, err)
	defer server.Close()
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, TLSConfig: pair.Client().Transport.(*http.Transport).TLSClientConfig}
	requireLocks(t, option)
	option.TLSConfig = &tls.Config{}
	p, err := redlockrueidis.Pool(option)
	require.NoError(t, err)
	_, err = p.GetContext(t.Context())
	require.ErrorContains(t, err, "unknown authority")
}

func TestOptionsThatLeadToNoIndependentMaster(t *testing.T) {
	one := []string{"a:1"}
	for want, o := range map[string]rueidis.ClientOption{
		"no InitAddress":       {},
		"has 2 addresses":      {InitAddress: []string{"a:1", "b:1"}},
		`the master of "m"`:    {InitAddress: one, Sentinel: rueidis.SentinelOption{MasterSet: "m"}},
		"of a:1 uses replicas": {InitAddress: one, ReplicaOnly: true},
		"a:1 uses replicas":    {InitAddress: one, Standalone: rueidis.StandaloneOption{ReplicaAddress: []string{"b:1"}}},
		"uses replicas: give":  {InitAddress: one, SendToReplicas: func(rueidis.Completed) bool { return true }},
	} {
		_, err := redlockrueidis.Pools(rueidis.ClientOption{InitAddress: one}, o)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "(option 2 of 2)")
	}
}

func ExamplePools() {
	nodes, err := redlocktest.New(3) // or your servers
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	var options []rueidis.ClientOption
	for _, url := range nodes.URLs() {
		options = append(options, rueidis.MustParseURL(url)) // with TLS and credentials, as your program has it
	}
	pools, err := redlockrueidis.Pools(options...)
	if err != nil {
		log.Fatal(err)
	}
	client, err := redlock.New(pools, redlock.WithRestartGuard(0)) // 0 is for tests
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("invoice-42").Do(context.Background(), func(context.Context, *redlock.Lease) error {
		fmt.Println("paid once")
		return nil
	})
	fmt.Println(err)
	// Output:
	// paid once
	// <nil>
}

func ExamplePool() {
	_, err := redlockrueidis.Pool(rueidis.ClientOption{InitAddress: strings.Fields("10.0.0.1:6379 10.0.0.2:6379")})
	fmt.Println(errors.Is(err, redlock.ErrConfig))
	// Output: true
}
