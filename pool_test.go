package redlock

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/endpoint"
)

func TestURLsAreReadAsWritten(t *testing.T) {
	for raw, want := range map[string]endpoint.Endpoint{
		"redis://a":                      {Network: "tcp", Address: "a:6379"},
		"redis://a:7000/3":               {Network: "tcp", Address: "a:7000", DB: 3},
		"redis://[::1]:7000":             {Network: "tcp", Address: "[::1]:7000"},
		"rediss://:secret@a:1":           {Network: "tcp", Address: "a:1", TLS: true, Password: "secret"},
		"redis://me:p%40ss@a":            {Network: "tcp", Address: "a:6379", Username: "me", Password: "p@ss"},
		"valkey://me:pw@a/2":             {Network: "tcp", Address: "a:6379", Username: "me", Password: "pw", DB: 2},
		"valkeys://a":                    {Network: "tcp", Address: "a:6379", TLS: true},
		"redis://:a,b@c":                 {Network: "tcp", Address: "c:6379", Password: "a,b"},
		"redis://:a%2Cb%40c@d":           {Network: "tcp", Address: "d:6379", Password: "a,b@c"},
		"unix:///run/redis@1,2.sock":     {Network: "unix", Address: "/run/redis@1,2.sock"},
		"unix:///run/redis.sock":         {Network: "unix", Address: "/run/redis.sock"},
		"unix://me:pw@/run/r.sock?db=12": {Network: "unix", Address: "/run/r.sock", Username: "me", Password: "pw", DB: 12},
	} {
		got, err := endpoint.Parse(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

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
	_, err := Open([]string{"redis://a", "redis://b", "redis://:pw@a:6379/2"})
	require.ErrorIs(t, err, ErrConfig)
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
	_, err := Open([]string{"redis://fine", raw})
	require.ErrorIs(t, err, ErrConfig, raw)
	require.ErrorContains(t, err, want, raw)
	require.ErrorContains(t, err, "URL 2 of 2", raw)
	require.NotContains(t, err.Error(), "hunter2", raw)
}

func FuzzURL(f *testing.F) {
	f.Add("redis://user:password@host:6379/1")
	f.Add("unix://me:pw@/run/redis.sock?db=1")
	f.Add("rediss://[::1]:7000")
	f.Add("valkey://a:7000,b:7000")
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := endpoint.Parse(raw)
		if err != nil {
			return
		}
		if e.DB < 0 || e.Address == "" {
			t.Fatalf("%q gave %+v", raw, e)
		}
		switch e.Network {
		case "tcp":
			if _, _, err := net.SplitHostPort(e.Address); err != nil || strings.Contains(e.Address, ",") {
				t.Fatalf("%q gave the address %q: %v", raw, e.Address, err)
			}
		case "unix":
			if !strings.HasPrefix(e.Address, "/") {
				t.Fatalf("%q gave the path %q", raw, e.Address)
			}
		default:
			t.Fatalf("%q gave the network %q", raw, e.Network)
		}
	})
}

// plainPool gives connections that cannot be shared: no timeouts, no contexts.
type plainPool struct{}

type plainConn struct{ redis.Conn }

func (plainConn) Close() error { return nil }

func (plainPool) GetContext(context.Context) (redis.Conn, error) { return plainConn{}, nil }

type emptyPool struct{}

func (emptyPool) GetContext(context.Context) (redis.Conn, error) { return nil, nil }

func TestUnsuitablePoolsAreToldSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c, err := New([]Pool{plainPool{}, emptyPool{}, net.nodes[0]}, WithLogger(nil), withClock(net.clock.now))
		require.NoError(t, err)
		net.clients = append(net.clients, c)
		_, err = c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "node 0: not sent: its connections (redlock.plainConn) must implement")
		require.ErrorContains(t, err, "node 1: not sent: cannot connect: the pool returned no connection and no error")
	})
}
