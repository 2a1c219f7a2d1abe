package endpoint

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

// recorder is a socket that keeps what is written to it, and reads from a text.
type recorder struct {
	net.Conn
	writes [][]byte
	from   io.Reader
}

func (r *recorder) Read(p []byte) (int, error) { return r.from.Read(p) }

func (*recorder) SetReadDeadline(time.Time) error { return nil }

func (*recorder) Close() error { return nil }

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func (r *recorder) all() string { return string(bytes.Join(r.writes, nil)) }

func TestConnWritesCommandsAsRedigoDoes(t *testing.T) {
	ours, theirs := new(recorder), new(recorder)
	for _, to := range []redis.Conn{newConn(ours), redis.NewConn(theirs, 0, 0)} {
		require.NoError(t, to.Send("PING"))
		require.NoError(t, to.Send("SET", "key", "value", "PX", 30_000, "NX"))
		require.NoError(t, to.Send("EVAL", "return 'ü\r\n'", int64(-7), 0, "", []byte{0, 255}, []byte(nil)))
		require.NoError(t, to.Send("ECHO", strings.Repeat("x", 3*flushAt)))
		require.NoError(t, to.Flush())
	}
	require.Equal(t, theirs.all(), ours.all())
}

func TestConnWritesManyCommandsAtOnce(t *testing.T) {
	to := new(recorder)
	conn := newConn(to)
	require.NoError(t, conn.Flush())
	require.Empty(t, to.writes, "a flush of nothing writes nothing")
	for range 200 {
		require.NoError(t, conn.Send("ECHO", strings.Repeat("x", 50)))
	}
	require.Empty(t, to.writes, "there are less than 16 KiB")
	require.NoError(t, conn.Flush())
	require.Len(t, to.writes, 1)
	for range 1000 {
		require.NoError(t, conn.Send("ECHO", strings.Repeat("x", 50)))
	}
	require.NoError(t, conn.Flush())
	require.Len(t, to.writes, 6, "1000 commands of 70 bytes, of which each write but the last has 16 KiB")
}

// sink is a socket that drops what is written to it.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

func TestConnSendsWithoutAllocations(t *testing.T) {
	conn := newConn(sink{})
	args := []any{"key", []byte("value"), "PX", 30_000, int64(1) << 60} // boxed once, as the callers' are
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		require.NoError(t, conn.Send("SET", args...))
		require.NoError(t, conn.Flush())
	}))
}

func TestConnRefusesAnArgumentThatIsNoText(t *testing.T) {
	server := miniredis.RunT(t)
	socket, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	conn := newConn(socket)
	defer conn.Close()
	require.ErrorContains(t, conn.Send("SET", "key", 1.5), "an argument of SET is a float64: it must be a string, []byte, int or int64")
	_, err = conn.Do("SET", "key", struct{}{})
	require.ErrorContains(t, err, "struct")
	reply, err := redis.String(conn.Do("ECHO", "still works"))
	require.NoError(t, err)
	require.Equal(t, "still works", reply)
}

// Do after Send, as redigo's: it receives all replies, returns the last one, and the first error.
func TestConnDoReceivesWhatIsDue(t *testing.T) {
	server := miniredis.RunT(t)
	socket, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	conn := newConn(socket)
	defer conn.Close()
	for i := range 3 {
		require.NoError(t, conn.Send("ECHO", strconv.Itoa(i)))
	}
	require.NoError(t, conn.Flush())
	first, err := redis.String(conn.Receive())
	require.NoError(t, err)
	require.Equal(t, "0", first)
	last, err := redis.String(conn.Do("ECHO", "last"))
	require.NoError(t, err)
	require.Equal(t, "last", last)

	require.NoError(t, conn.Send("NONSENSE"))
	_, err = conn.DoContext(t.Context(), "PING")
	require.ErrorContains(t, err, "unknown command")
	reply, err := redis.String(conn.DoWithTimeout(0, "PING"))
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
	_, err = conn.Do("")
	require.NoError(t, err, "nothing is due")

	server.Close()
	_, err = conn.Do("PING")
	require.Error(t, err)
}

// dial connects to a listener of the test's own, and returns both ends.
func dial(t *testing.T) (c *conn, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	socket, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	c = newConn(socket)
	t.Cleanup(func() { _ = c.Close() })
	return c, server
}

func TestConnTimesTheWholeReply(t *testing.T) {
	c, server := dial(t)
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.Flush())
	_, err := server.Write([]byte("+PO"))
	require.NoError(t, err)
	_, err = c.ReceiveWithTimeout(20 * time.Millisecond)
	require.ErrorContains(t, err, "timeout")
	require.Error(t, c.Err(), "the connection is broken")
}

func TestConnForgetsTheTimeoutOfTheReplyBefore(t *testing.T) {
	c, server := dial(t)
	for range 2 {
		require.NoError(t, c.Send("PING"))
	}
	require.NoError(t, c.Flush())
	_, err := server.Write([]byte("+PONG\r\n"))
	require.NoError(t, err)
	_, err = c.ReceiveWithTimeout(100 * time.Millisecond)
	require.NoError(t, err)
	time.AfterFunc(200*time.Millisecond, func() { _, _ = server.Write([]byte("+PONG\r\n")) })
	_, err = c.ReceiveWithTimeout(0)
	require.NoError(t, err)
}

func TestConnIsCutBesideItsReceiver(t *testing.T) {
	c, _ := dial(t)
	require.NoError(t, c.Send("PING"))
	received := make(chan error, 1)
	go func() {
		_, err := c.Receive()
		received <- err
	}()
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := c.ReceiveContext(ended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Error(t, <-received)
	require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
	require.ErrorIs(t, c.Close(), context.DeadlineExceeded)
}

func TestConnReceivesUntilItsContextEnds(t *testing.T) {
	c, server := dial(t)
	for range 2 {
		require.NoError(t, c.Send("PING"))
	}
	_, err := server.Write([]byte("-ERR no\r\n"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.ReceiveContext(ctx)
	require.Equal(t, redis.Error("ERR no"), err)
	require.NoError(t, c.Err())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = c.ReceiveContext(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A server that has no room says so and closes its end: a write that fails after that does not hide what it said.
func TestConnReceivesAfterAWriteThatFailed(t *testing.T) {
	c, server := dial(t)
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.Flush())
	_, err := server.Write([]byte("-ERR max number of clients reached\r\n"))
	require.NoError(t, err)
	require.NoError(t, server.Close()) // with unread bytes: a reset
	for err == nil {
		require.NoError(t, c.Send("ECHO", strings.Repeat("x", flushAt/2)))
		err = c.Flush()
	}
	_, err = c.Receive()
	require.ErrorContains(t, err, "max number of clients")
}

// An integer, and a short text, are handed out where they are: the reader of a connection allocates nothing for them.
func TestConnReceivesIntegersAndShortTextsWithoutAllocations(t *testing.T) {
	for _, c := range []struct {
		text string
		kind pipe.ReplyKind
	}{
		{":1234567890123\r\n", pipe.Integer},
		{"$26\r\n01234567890123456789012345\r\n", pipe.Text},
		{"+OK\r\n", pipe.Other},
		{"$-1\r\n", pipe.Other},
	} {
		conn := newConn(&endless{text: c.text})
		var r pipe.Reply
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			conn.sent.Add(1)
			require.NoError(t, conn.ReceiveReply(&r))
		}), c.text)
		require.Equal(t, c.kind, r.Kind, c.text)
	}
}

// What a Reply returns as its value stays when the buffer has other bytes.
func TestValueOfAReplyStays(t *testing.T) {
	conn := newConn(&endless{text: "$3\r\nabc\r\n"})
	conn.sent.Add(1)
	var r pipe.Reply
	require.NoError(t, conn.ReceiveReply(&r))
	value := r.Value()
	clear(conn.replies.buf)
	require.Equal(t, []byte("abc"), value)
}

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
