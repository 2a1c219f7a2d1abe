package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// flushAt is how many bytes of commands Send collects before it writes them to the socket. A server
// reads as many at once.
const flushAt = 16 << 10

// conn is a connection of redigo whose commands are encoded and collected here. redigo's own writer
// costs more where many callers share the connection: it writes to the socket after every 4096 bytes, which
// is a system call that wakes the server, and copies each argument in four pieces. docs/performance.md has
// the figures.
type conn struct {
	replies
	socket net.Conn
	out    []byte // commands that are not written yet

	sent     uint64        // commands
	received atomic.Uint64 // replies that were asked for; pipe.Cut asks beside the goroutine that receives
}

// replies is what redigo's connections implement.
type replies interface {
	redis.ConnWithContext
	redis.ConnWithTimeout
}

// newConn makes a connection over a socket. As with redigo's, one goroutine may call Send and
// Flush while another one calls Receive.
func newConn(socket net.Conn) *conn {
	return &conn{replies: redis.NewConn(socket, 0, 0).(replies), socket: socket}
}

// Send implements redis.Conn. It takes arguments that are text, bytes, or integers.
func (c *conn) Send(command string, args ...any) error {
	before := len(c.out)
	c.out = appendLength(c.out, '*', len(args)+1)
	c.out = appendText(c.out, command)
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			c.out = appendText(c.out, arg)
		case []byte:
			c.out = appendText(c.out, arg)
		case int:
			c.out = appendInteger(c.out, int64(arg))
		case int64:
			c.out = appendInteger(c.out, arg)
		default:
			c.out = c.out[:before]
			return fmt.Errorf("an argument of %s is a %T: it must be a string, []byte, int or int64", command, arg)
		}
	}
	c.sent++
	if len(c.out) < flushAt {
		return nil
	}
	return c.Flush()
}

// Flush implements redis.Conn.
func (c *conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.socket.Write(c.out)
	c.out = c.out[:0]
	return err
}

// appendText appends an argument as the protocol has it: $, its length, and itself.
func appendText[T string | []byte](to []byte, text T) []byte {
	return append(append(appendLength(to, '$', len(text)), text...), "\r\n"...)
}

// appendInteger appends an argument without making a string of it.
func appendInteger(to []byte, n int64) []byte {
	var digits [20]byte
	return appendText(to, strconv.AppendInt(digits[:0], n, 10))
}

func appendLength(to []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(to, kind), int64(n), 10), "\r\n"...)
}

// Receive implements redis.Conn.
func (c *conn) Receive() (any, error) {
	c.received.Add(1)
	return c.replies.Receive()
}

// ReceiveWithTimeout implements redis.ConnWithTimeout.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	c.received.Add(1)
	return c.replies.ReceiveWithTimeout(timeout)
}

// ReceiveContext implements redis.ConnWithContext.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	c.received.Add(1)
	return c.replies.ReceiveContext(ctx)
}

// Do implements redis.Conn.
func (c *conn) Do(command string, args ...any) (any, error) {
	return c.do(c.Receive, command, args)
}

// DoWithTimeout implements redis.ConnWithTimeout.
func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.do(func() (any, error) { return c.ReceiveWithTimeout(timeout) }, command, args)
}

// DoContext implements redis.ConnWithContext.
func (c *conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return c.do(func() (any, error) { return c.ReceiveContext(ctx) }, command, args)
}

// do sends a command, unless it is "", and receives all replies that are due. It returns the last
// one, and the first error.
func (c *conn) do(receive func() (any, error), command string, args []any) (reply any, first error) {
	if command != "" {
		if err := c.Send(command, args...); err != nil {
			return nil, err
		}
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for c.received.Load() < c.sent {
		var err error
		reply, err = receive()
		if first == nil {
			first = err
		}
		if refused := redis.Error(""); err != nil && !errors.As(err, &refused) {
			return nil, first
		}
	}
	return reply, first
}
