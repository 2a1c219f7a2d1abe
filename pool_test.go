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
		"unix:///run/redis.sock":         {Network: "unix", Address: "/run/redis.sock"},
		"unix://me:pw@/run/r.sock?db=12": {Network: "unix", Address: "/run/r.sock", Username: "me", Password: "pw", DB: 12},
	} {
		got, err := endpoint.Parse(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

func TestBadURLsAreRefusedWithoutTellingThePassword(t *testing.T) {
	for raw, want := range map[string]string{
		"":                             "its scheme is \"\"",
		"127.0.0.1:6379":               "cannot be parsed",
		"localhost:6379":               "must look like redis://host:port",
		"http://a":                     "redis, rediss and unix are known",
		"redis://":                     "names no host",
		"redis://:6379":                "names no host",
		"redis://a:0":                  "between 1 and 65535",
		"redis://a:70000":              "between 1 and 65535",
		"redis://a/x":                  "is not a number",
		"redis://a/-1":                 "is not a number",
		"redis://a?timeout=1":          "has a query",
		"redis://user@a":               "without a password",
		"unix://run/redis.sock":        "unix:///path/to/socket",
		"unix:///":                     "unix:///path/to/socket",
		"unix:///s?x=1":                "only db is known",
		"redis://:hunter2@a:99999":     "between 1 and 65535",
		"redis://:hunter2@a:port":      "cannot be parsed",
		"redis://:hunter2%zz@a":        "cannot be parsed",
		"redis://me:hunter2@a/nowhere": "is not a number",
		"redis://me:/hunter2@a":        "write / as %2F",
		"redis://:12/hunter2@a":        "write / as %2F",
		"unix://me:a@/s?hunter2@/run":  "? as %3F",
	} {
		_, err := Open([]string{"redis://fine", raw})
		require.ErrorIs(t, err, ErrConfig, raw)
		require.ErrorContains(t, err, want, raw)
		require.ErrorContains(t, err, "URL 2 of 2")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := Open([]string{"redis://a", "redis://b", "redis://:pw@a:6379/2"})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "URL 1 and URL 3 both lead to a:6379")
}

func FuzzURL(f *testing.F) {
	f.Add("redis://user:password@host:6379/1")
	f.Add("unix://me:pw@/run/redis.sock?db=1")
	f.Add("rediss://[::1]:7000")
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
			if _, _, err := net.SplitHostPort(e.Address); err != nil {
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
