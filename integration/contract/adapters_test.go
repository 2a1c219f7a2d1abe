package contract

import (
	"context"
	"net"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgoredis"
	"github.com/redlock-go/redlock/adapters/redlockrueidis"
	"github.com/redlock-go/redlock/adapters/redlockvalkey"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

func openDialPools(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	pools := make([]redlock.Pool, len(servers))
	for i, s := range servers {
		dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", s.host) }
		pools[i] = redlock.DialPool(dial, redlock.DialConfig{Addr: s.host,
			Credentials: func(context.Context) (string, string, error) { return s.user, s.password, nil }})
	}
	return testclient.NewUnready(t, pools, opts...)
}

func openGoRedis(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	clients := make([]*goredis.Client, len(servers))
	for i, s := range servers {
		clients[i] = goredis.NewClient(&goredis.Options{Addr: s.host, Username: s.user, Password: s.password})
		t.Cleanup(func() { assert.NoError(t, clients[i].Close()) })
	}
	return testclient.NewUnready(t, redlockgoredis.Pools(clients...), opts...)
}

func openRueidis(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	options := make([]rueidis.ClientOption, len(servers))
	for i, s := range servers {
		options[i] = rueidis.ClientOption{InitAddress: []string{s.host}, Username: s.user, Password: s.password}
	}
	pools, err := redlockrueidis.Pools(options...)
	require.NoError(t, err)
	return testclient.NewUnready(t, pools, opts...)
}

func openValkey(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	options := make([]valkey.ClientOption, len(servers))
	for i, s := range servers {
		options[i] = valkey.ClientOption{InitAddress: []string{s.host}, Username: s.user, Password: s.password}
	}
	pools, err := redlockvalkey.Pools(options...)
	require.NoError(t, err)
	return testclient.NewUnready(t, pools, opts...)
}
