package endpoint

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// listen accepts connections until the test is over, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the test
		for {
			socket, err := l.Accept()
			if err != nil {
				return
			}
			go serve(socket)
		}
	}()
	return l.Addr().String()
}

func TestTLSAtAPlainPortIsNamed(t *testing.T) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for name, serve := range map[string]func(net.Conn){
		"an answer in plain text": func(c net.Conn) { _, _ = io.WriteString(c, "-ERR Protocol error\r\n"); <-over; _ = c.Close() },
		"an end":                  func(c net.Conn) { _ = c.Close() },
		"silence":                 func(c net.Conn) { <-over; _ = c.Close() },
	} {
		e, err := Parse("rediss://" + listen(t, serve))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = e.Connector().Connect(ctx)
		cancel()
		require.ErrorContains(t, err, "is this a Redis server, and does it speak TLS at this port?", name)
	}
	e, err := Parse("rediss://127.0.0.1:1")
	require.NoError(t, err)
	_, err = e.Connector().Connect(t.Context())
	require.NotContains(t, err.Error(), "TLS", "nothing listens")
}

// A server that does not want the connection says so while the login is written.
func TestLoginShowsWhatTheServerSaidBeforeItClosed(t *testing.T) {
	here, there := net.Pipe()
	go func() { _, _ = io.WriteString(there, "-ERR max number of clients reached\r\n"); _ = there.Close() }()
	c := &Connector{Dial: func(context.Context) (net.Conn, error) { return unwritable{here}, nil }, Database: 1}
	_, err := c.Connect(t.Context())
	require.ErrorContains(t, err, "ERR max number of clients reached")
}

func TestConnDoShowsWhatTheServerSaidBeforeItClosed(t *testing.T) {
	here, there := net.Pipe()
	go func() { _, _ = io.WriteString(there, "-ERR max number of clients reached\r\n"); _ = there.Close() }()
	c := newConn(unwritable{here})
	defer c.Close()
	_, err := c.Do("PING")
	require.Equal(t, redis.Error("ERR max number of clients reached"), err)
	_, err = c.Do("PING")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// unwritable is a socket whose other end is closed for writing.
type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
