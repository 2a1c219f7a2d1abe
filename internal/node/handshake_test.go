package node

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/protocol"
)

// socketTo returns a client's end of a connection, at whose other end a server has written its text and ended.
// The first bytes that the client writes are accepted, and no more.
func socketTo(text string) net.Conn { return &closed{from: strings.NewReader(text)} }

type closed struct {
	net.Conn
	from   io.Reader
	writes int
}

func (c *closed) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err == io.EOF {
		err = syscall.ECONNRESET
	}
	return n, err
}

func (c *closed) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func (*closed) SetDeadline(time.Time) error { return nil }

func (*closed) SetReadDeadline(time.Time) error { return nil }

func (*closed) SetWriteDeadline(time.Time) error { return nil }

func (c *closed) Close() error {
	c.from = strings.NewReader("")
	return nil
}

// dials is a pool that counts its connections.
type dials struct {
	connect func() redis.Conn
	count   int
}

func (d *dials) GetContext(context.Context) (redis.Conn, error) {
	d.count++
	return d.connect(), nil
}

// shakeOnce makes one connection, and returns why it failed.
func shakeOnce(t *testing.T, d *dials) error {
	t.Helper()
	u := newUnconnected()
	u.pool = d
	_, err := (&connector{node: u.Node}).connect(t.Context(), func() {})
	return err
}

// refusals are what servers say when they accept a connection that they do not want.
var refusals = map[string]string{
	"ERR max number of clients reached":                       "raise maxclients",
	"DENIED Redis is running in protected mode because …":     "protected mode",
	"LOADING Redis is loading the dataset in memory":          "wait",
	"ERR Protocol error: unauthenticated multibulk length":    "",
	"NOAUTH Authentication required.":                         "check the user and the password",
	"MASTERDOWN Link with MASTER is down and replica-serve-…": "",
}

func TestHandshakeShowsWhatTheServerSaidBeforeItClosed(t *testing.T) {
	for said, remedy := range refusals {
		d := &dials{connect: func() redis.Conn {
			conn, err := (&endpoint.Connector{Dial: func(context.Context) (net.Conn, error) { return socketTo("-" + said + "\r\n"), nil }}).Connect(t.Context())
			require.NoError(t, err)
			return conn
		}}
		err := shakeOnce(t, d)
		require.ErrorIs(t, err, redis.Error(said))
		require.ErrorContains(t, Advise(err), remedy)
		require.Equal(t, 1, d.count)
	}
}

// Connections of redigo cannot be read any more when a write has failed.
func TestHandshakeAsksAgainOverOtherLibrariesConnections(t *testing.T) {
	for said := range refusals {
		d := &dials{connect: func() redis.Conn { return redis.NewConn(socketTo("-"+said+"\r\n"), 0, 0) }}
		require.ErrorIs(t, shakeOnce(t, d), redis.Error(said))
		require.Equal(t, 2, d.count)
	}
}

// An error of one command is not why a connection broke.
func TestHandshakeTakesOnlyTheFirstReplyForARefusal(t *testing.T) {
	d := &dials{connect: func() redis.Conn { return redis.NewConn(socketTo("+OK\r\n-NOPERM no\r\n"), 0, 0) }}
	err := shakeOnce(t, d)
	require.False(t, IsPermanent(err), "%v", err)
	d = &dials{}
	d.connect = func() redis.Conn {
		if d.count == 1 {
			return redis.NewConn(socketTo(""), 0, 0)
		}
		return redis.NewConn(socketTo("-NOPERM no\r\n+PONG\r\n"), 0, 0)
	}
	err = shakeOnce(t, d)
	require.Equal(t, 2, d.count)
	require.False(t, IsPermanent(err), "%v", err)
}

// A sentinel refuses the scripts, too.
func TestHandshakeNamesASentinel(t *testing.T) {
	text := strings.Repeat("-ERR unknown command 'SCRIPT'\r\n", len(protocol.ForMutexes.Scripts()))
	text += ":1\r\n$21\r\nredis_mode:sentinel\r\n\r\n-ERR unknown command 'TIME'\r\n"
	err := shakeOnce(t, &dials{connect: func() redis.Conn { return redis.NewConn(&closed{from: strings.NewReader(text), writes: -1000}, 0, 0) }})
	require.ErrorContains(t, err, "it is a sentinel")
	require.True(t, IsPermanent(err))
}

func TestHandshakeAsksWhetherAServerThatClosesIsOne(t *testing.T) {
	for _, connect := range []func() redis.Conn{
		func() redis.Conn { return redis.NewConn(socketTo(""), 0, 0) },
		func() redis.Conn {
			conn, _ := (&endpoint.Connector{Dial: func(context.Context) (net.Conn, error) { return socketTo(""), nil }}).Connect(context.Background())
			return conn
		},
	} {
		err := shakeOnce(t, &dials{connect: connect})
		require.ErrorContains(t, err, "is this a Redis server, and does it speak TLS?")
		require.True(t, errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
		require.False(t, IsPermanent(err))
	}
}
