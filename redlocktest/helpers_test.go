package redlocktest_test

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// do sends one command on a connection of its own.
func do(t *testing.T, url, command string, args ...any) any {
	t.Helper()
	reply, err := dial(t, url).Do(command, args...)
	require.NoError(t, err)
	return reply
}

func dial(t *testing.T, url string) redis.Conn {
	t.Helper()
	conn, err := redis.DialURL(url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func info(t *testing.T, url string) string {
	t.Helper()
	text, err := redis.String(do(t, url, "INFO"), nil)
	require.NoError(t, err)
	return text
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	return listener
}

// fakeTB records the calls of Start. Fatalf ends the goroutine, as that of a *testing.T does.
type fakeTB struct {
	failure  string
	cleanups []func()
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
