package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/loginreply"
	"github.com/redlock-go/redlock/internal/pipe"
)

// flushAt is how many bytes of commands Send collects before it writes them to the socket. A server
// reads as many at once.
const flushAt = 16 << 10

// maxRefusal is how many bytes of an error reply are shown.
const maxRefusal = 1 << 10

// conn is a connection to a server. Commands are encoded and collected here: redigo's own writer
// costs more if many callers share the connection. It writes to the socket after every 4096 bytes, which
// is a system call that wakes the server, and copies each argument in four pieces. docs/performance.md has
// the figures. The decoder of replies is this package's own too: redigo's makes room for what a reply
// announces, so that one server's reply could end the process.
//
// Timeouts are timers that close the socket: not each socket has deadlines. Those of x/crypto/ssh return an error, and
// those of some wrappers do nothing.
type conn struct {
	socket net.Conn
	out    []byte        // commands that are not written yet
	sent   atomic.Uint64 // commands; the sending goroutine counts

	// Used by the receiving goroutine alone.
	replies  *decoder
	received uint64 // replies that came whole

	subscribed atomic.Bool   // the server sends messages without being asked
	login      atomic.Uint64 // commands up to the last login; the sending goroutine counts

	mu  sync.Mutex // protects err
	err error      // why the socket is closed
}

// newConn makes a connection over a socket. As with redigo's, one goroutine can call Send and
// Flush while another one calls Receive.
func newConn(socket net.Conn) *conn {
	c := &conn{socket: socket}
	c.replies = newDecoder(answers{c})
	return c
}

// answers reads the socket for the decoder. Data that no command asked for is an error as soon as it comes: no
// caller would wait for its end.
type answers struct{ *conn }

func (a answers) Read(p []byte) (int, error) {
	n, err := a.socket.Read(p)
	if n > 0 && !a.isAsked() {
		return 0, errUnasked()
	}
	return n, err
}

// isAsked reports whether the server owes a reply, or may send at any time. The receiving goroutine calls it.
func (c *conn) isAsked() bool { return c.received < c.sent.Load() || c.subscribed.Load() }

// Close implements redis.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.err = errors.New("the connection was closed")
	return c.socket.Close()
}

// fail closes the socket, so that reads and writes return. It returns why the connection failed first.
func (c *conn) fail(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = why
		_ = c.socket.Close() // it is broken
	}
	return c.err
}

// Err implements redis.Conn.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
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
	switch sent := c.sent.Add(1); command {
	case "SUBSCRIBE":
		c.subscribed.Store(true)
	case "AUTH", "HELLO":
		c.login.Store(sent)
	}
	if len(c.out) < flushAt {
		return nil
	}
	return c.Flush()
}

// Flush implements redis.Conn. An error leaves the connection open for Receive: what the server said before it
// closed its end can still be read.
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
	return append(append(appendLength(to, '$', len(text)), text...), '\r', '\n')
}

// appendInteger appends an argument without making a string of it.
func appendInteger(to []byte, n int64) []byte {
	var digits [20]byte
	return appendText(to, strconv.AppendInt(digits[:0], n, 10))
}

// appendLength appends a length. Each command has several, and most have one or two digits.
func appendLength(to []byte, kind byte, n int) []byte {
	switch {
	case n < 10:
		return append(to, kind, '0'+byte(n), '\r', '\n')
	case n < 100:
		return append(to, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	return append(strconv.AppendInt(append(to, kind), int64(n), 10), '\r', '\n')
}

// Receive implements redis.Conn.
func (c *conn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

// ReceiveWithTimeout implements redis.ConnWithTimeout. The timeout is one of the whole reply.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	if timeout != 0 {
		timer := time.AfterFunc(timeout, func() { _ = c.fail(os.ErrDeadlineExceeded) })
		defer timer.Stop()
	}
	var r pipe.Reply
	if err := c.ReceiveReply(&r); err != nil {
		return nil, err
	}
	return r.Value(), nil
}

// ReceiveReply implements pipe.QuickConn. It returns the reply if it is an error: of a login, what can be shown of it.
func (c *conn) ReceiveReply(r *pipe.Reply) error {
	if c.replies.at < c.replies.end && !c.isAsked() { // something came behind the last reply
		return c.fail(errUnasked())
	}
	if err := c.replies.decode(r); err != nil {
		return c.fail(err)
	}
	c.received++
	if r.Kind != pipe.Other {
		return nil
	}
	refusal, refused := r.Value().(redis.Error)
	if !refused {
		return nil
	}
	if c.received <= c.login.Load() {
		refusal = redis.Error(loginreply.Withhold(string(refusal)))
	} else if len(refusal) > maxRefusal {
		refusal = refusal[:maxRefusal] + "…"
	}
	r.Set(refusal)
	return refusal
}

// ReceiveContext implements redis.ConnWithContext. If ctx ends first, it closes the socket; if ctx has ended
// already, it does nothing else, and can run beside Receive.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, c.fail(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.fail(ctx.Err()) })
	defer stop()
	return c.Receive()
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
		refused := redis.Error("")
		if _, said := receive(); errors.As(said, &refused) {
			return nil, refused // ahead of closing its end
		}
		return nil, err
	}
	for c.received < c.sent.Load() {
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
