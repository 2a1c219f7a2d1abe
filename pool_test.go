package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testhook"
	"github.com/redlock-go/redlock/internal/testnet"
)

func TestOpenRefusesBadURLsWithoutRepeatingThem(t *testing.T) {
	const form = "it must look like redis://host:port"
	for raw, want := range map[string]string{
		"":                             form,
		"a":                            form,
		"10.0.0.1":                     form,
		"127.0.0.1:6379":               form,
		"[::1]:6379":                   form,
		"localhost:6379":               form,
		" redis://a":                   form,
		"redis://a ":                   form,
		"redis:a":                      form,
		"me:hunter2@a":                 form,
		"http://a":                     "redis, rediss, valkey, valkeys and unix are",
		"redis://":                     "names no host",
		"redis://:6379":                "names no host",
		"redis://a:0":                  "between 1 and 65535",
		"redis://a:70000":              "between 1 and 65535",
		"redis://a/x":                  "is not a number",
		"redis://a/-1":                 "is not a number",
		"redis://a?timeout=1":          "has a query",
		"redis://user@a":               "without a password",
		"redis://hunter2@a":            "without a password",
		"redis://hunter2:@a":           "without a password",
		"unix://hunter2@/run/r.sock":   "without a password",
		"unix://run/redis.sock":        "unix:///path/to/socket",
		"unix:///":                     "unix:///path/to/socket",
		"unix:///s?x=1":                "only db is",
		"redis://:hunter2@a:99999":     "between 1 and 65535",
		"redis://:hunter2@a:port":      "cannot be parsed",
		"redis://:hunter2%zz@a":        "cannot be parsed",
		"redis://me:hunter2@a/nowhere": "is not a number",
		"redis://me:/hunter2@a":        "write / as %2F",
		"redis://:12/hunter2@a":        "write / as %2F",
		"redis://me:1#hunter2@a":       "# as %23",
		"redis://me:1#hunter2":         "has a #",
		"hunter2://me:pw@a":            "redis, rediss, valkey, valkeys and unix are",
		"unix://me:a@/s?hunter2@/run":  "? as %3F",
		"unix://me:1?hunter2%40/run":   "only db is",
		"unix:///hunter2@/run/r.sock":  "write / as %2F",
	} {
		requireRefusedURL(t, raw, want)
	}
	_, err := redlock.Open([]string{"redis://a", "redis://b", "redis://:pw@a:6379/2"})
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorContains(t, err, "URL 1 and URL 3 both lead to a:6379")
}

func TestOpenRefusesSeveralServersInOneURL(t *testing.T) {
	for _, raw := range []string{
		"redis://a:6379,b:6379",
		"redis://a,b",
		"redis://a:6379, b:6379",
		"redis://a:6379,redis://b:6379",
		"redis://a:6379/0,redis://b:6379/0",
		"redis://:hunter2@a:6379,b:6379",
		"redis://:hunter2@a:6379,:hunter2@b:6379",
		"redis://:hunter2@a:6379,redis://:hunter2@b:6379",
		"unix:///run/a.sock,unix:///run/b.sock",
	} {
		requireRefusedURL(t, raw, "give each server a URL of its own")
	}
}

func requireRefusedURL(t *testing.T, raw, want string) {
	t.Helper()
	_, err := redlock.Open([]string{"redis://fine", raw})
	require.ErrorIs(t, err, redlock.ErrConfig, raw)
	require.ErrorContains(t, err, want, raw)
	require.ErrorContains(t, err, "URL 2 of 2", raw)
	require.NotContains(t, err.Error(), "hunter2", raw)
}

// plainPool returns connections that cannot be shared: they have neither timeouts nor contexts.
type plainPool struct{}

type plainConn struct{ redis.Conn }

func (plainConn) Close() error { return nil }

func (plainPool) GetContext(context.Context) (redis.Conn, error) { return plainConn{}, nil }

type emptyPool struct{}

func (emptyPool) GetContext(context.Context) (redis.Conn, error) { return nil, nil }

func TestErrorsNameTheFaultOfUnsuitablePools(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, err := redlock.New([]redlock.Pool{plainPool{}, emptyPool{}, net.Nodes[0]}, redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		net.Add(c)
		_, err = c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "node 0: not sent: its connections (redlock_test.plainConn) must implement")
		require.ErrorContains(t, err, "node 1: not sent: cannot connect: the pool returned no connection and no error")
	})
}

// hangingPool dials until release is closed, even if its ctx ends.
type hangingPool struct {
	*testnet.Node
	release chan struct{}
}

func (p hangingPool) GetContext(context.Context) (redis.Conn, error) {
	<-p.release
	return nil, testnet.ErrRefused
}

func TestPoolsDialMayHang(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		release := make(chan struct{})
		hanging := hangingPool{net.Nodes[0], release}
		c, err := redlock.New([]redlock.Pool{hanging, net.Nodes[1], net.Nodes[2]}, redlock.WithRestartGuard(0), redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		took := testnet.Elapsed(func() {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		})
		require.LessOrEqual(t, took, testhook.Engine(c).NodeTimeout)
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, c.Stats().Nodes[0].Err, "no connection within")
		require.NoError(t, c.Close())
		close(release)
	})
}
