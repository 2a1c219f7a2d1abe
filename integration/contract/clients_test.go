package contract

import (
	"context"
	"net"
	"net/url"
	"testing"

	"github.com/gomodule/redigo/redis"
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

// address is where a client finds a server, and as which user.
type address struct {
	host     string // with the port
	user     string // "": the default user, without a password
	password string
}

// openFunc opens a client on these servers with these options. What else the function opens, it must close by t.Cleanup.
type openFunc func(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client

// clients are the kinds of clients that the contract is for.
var clients = []struct {
	name string
	open openFunc
}{
	{"Open", openURLs},
	{"redigo pools", openPools},
	{"DialPool", openDialPools},
	{"go-redis", openGoRedis},
	{"rueidis", openRueidis},
	{"valkey-go", openValkey},
	{"over SSH", openOverSSH},
}

func openURLs(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	urls := make([]string, len(servers))
	for i, s := range servers {
		u := url.URL{Scheme: "redis", Host: s.host}
		if s.user != "" {
			u.User = url.UserPassword(s.user, s.password)
		}
		urls[i] = u.String()
	}
	return testclient.OpenUnready(t, urls, opts...)
}

func openPools(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	pools := make([]redlock.Pool, len(servers))
	for i, s := range servers {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", s.host, redis.DialUsername(s.user), redis.DialPassword(s.password))
		}}
		t.Cleanup(func() { _ = pool.Close() })
		pools[i] = pool
	}
	return testclient.NewUnready(t, pools, opts...)
}

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
