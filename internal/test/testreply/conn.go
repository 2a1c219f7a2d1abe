package testreply

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// maxReplies is how many replies a Conn gives before it breaks.
const maxReplies = 40

var errBroken = errors.New("the connection broke")

// Conn is a connection to a server that gives the same replies to all commands, in turn,
// and then breaks. It is a redis.Conn for a pipe.
type Conn struct {
	SaidWhole bool // a reply began with "whole", as the reply of a probe that finds a record

	replies []any
	count   int
	asked   chan struct{}
	cut     sync.Once
}

// NewConn makes a connection with these replies, of which there must be one.
func NewConn(replies []any) *Conn {
	return &Conn{replies: replies, asked: make(chan struct{}, 100)}
}

// Send implements redis.Conn.
func (c *Conn) Send(string, ...any) error { c.asked <- struct{}{}; return nil }

// Flush implements redis.Conn.
func (c *Conn) Flush() error { return nil }

// Err implements redis.Conn.
func (c *Conn) Err() error { return nil }

// Close implements redis.Conn.
func (c *Conn) Close() error { return nil }

// Do implements redis.Conn. A pipe does not call it.
func (c *Conn) Do(string, ...any) (any, error) { return nil, errBroken }

// Receive implements redis.Conn. A pipe does not call it.
func (c *Conn) Receive() (any, error) { return nil, errBroken }

// DoContext implements redis.ConnWithContext. A pipe does not call it.
func (c *Conn) DoContext(context.Context, string, ...any) (any, error) { return nil, errBroken }

// DoWithTimeout implements redis.ConnWithTimeout. A pipe does not call it.
func (c *Conn) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errBroken }

// ReceiveContext implements redis.ConnWithContext. A pipe calls it to break the connection.
func (c *Conn) ReceiveContext(context.Context) (any, error) {
	c.cut.Do(func() { close(c.asked) })
	return nil, errBroken
}

// ReceiveWithTimeout implements redis.ConnWithTimeout: it waits for a command, and returns
// its reply.
func (c *Conn) ReceiveWithTimeout(time.Duration) (any, error) {
	if _, more := <-c.asked; !more || c.count == maxReplies {
		return nil, errBroken
	}
	reply := c.replies[c.count%len(c.replies)]
	c.count++
	if refusal, is := reply.(redis.Error); is {
		return nil, refusal
	}
	if parts := Values(reply); len(parts) > 0 {
		word, _ := redis.String(parts[0], nil)
		c.SaidWhole = c.SaidWhole || word == "whole"
	}
	return reply, nil
}
