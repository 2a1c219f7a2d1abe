package contract

import (
	"net/url"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
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
